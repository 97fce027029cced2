#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/simulate/call_timer.h"

namespace tutti::cli::simulate {

/// Times measured with two ranks of this machine, in microseconds.
struct Figures {
  struct Point {
    std::size_t bytes;
    double time;
  };
  std::vector<Point> one_message;  ///< each to the other, at once (all_gather by ring); ascending, two sizes
  double two_hops = 0;             ///< all_reduce by ring, of twice the first size
  double many = 0;  ///< one of many broadcasts of 8 bytes in a row: the time for which the sender is busy
  std::size_t summed_bytes = 0;
  double sum = 0;  ///< the same, added up (reduce_scatter by ring)
};

/// The network file that reproduces these figures. All distances are equal, as there is only this host.
std::string network_text(const std::string& name, const Figures& figures);

/// Calls that are both measured and simulated: all_reduce by ring, tree and double binary tree.
struct Trials {
  std::vector<int> ranks;
  std::vector<std::size_t> bytes;
};

/// Measures with two ranks, and prints the file with a comment for each trial.
void calibrate(const Placement& place, const Trials& trials);

}  // namespace tutti::cli::simulate
