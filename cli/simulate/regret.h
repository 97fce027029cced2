#pragma once

#include <string>
#include <vector>

#include "algorithms/select.h"
#include "cli/simulate/network.h"
#include "cli/simulate/runs.h"

namespace tutti::cli::simulate {

/// The cost of choosing by a table on a modelled network.
struct Regret {
  int ranks = 0;
  std::size_t bytes = 0;
  algorithms::Choice chosen;
  algorithms::Choice best;
  double chosen_time = 0;
  double best_time = 0;
};

/// For each pair of ranks and bytes, simulates the choice of `table` for TCP and every algorithm of the collective,
/// with and without a pipeline. Algorithms that are too large to simulate are left out, unless chosen. So are those
/// whose sends alone take longer than the best time so far.
std::vector<Regret> regret(const algorithms::TuningTable& table, Collective collective, const std::vector<int>& ranks,
                           const std::vector<std::size_t>& sizes, const NetworkFile& file, const Told& tell = {});

std::string to_text(const std::vector<Regret>& all);

}  // namespace tutti::cli::simulate
