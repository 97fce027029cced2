#pragma once

#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "cli/simulate/runs.h"

namespace tutti::cli::simulate {

/// A point of the curves that NVIDIA published, read off the plots (within 2 % for times, 1 % for rates).
struct Published {
  int ranks;
  double ring, tree;                      ///< seconds for an all_reduce of 8 bytes
  double ring_bandwidth, tree_bandwidth;  ///< bus bytes per second, 64 MiB
};
extern const std::array<Published, 9> published;

/// Simulated and published times, in the order of `published`.
struct SummitLatency {
  std::vector<Timed> ring, tree;                    ///< with the fitted constants
  std::vector<Timed> physical_ring, physical_tree;  ///< with latencies of the hardware only
};
SummitLatency summit_latency(int most_ranks, const Told& tell = {});
struct SummitBandwidth {
  std::vector<Timed> ring, tree;
};
SummitBandwidth summit_bandwidth(int most_ranks, const Told& tell = {});

std::string to_text(const SummitLatency& found);
std::string to_text(const SummitBandwidth& found);

}  // namespace tutti::cli::simulate
