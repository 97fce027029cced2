#pragma once

#include <string>
#include <vector>

#include "algorithms/select.h"
#include "cli/simulate/network.h"
#include "cli/simulate/runs.h"

namespace tutti::cli::simulate {

/// What choosing by a table costs on a modelled network.
struct Regret {
  int ranks = 0;
  std::size_t bytes = 0;
  algorithms::Choice chosen;
  algorithms::Choice best;
  double chosen_time = 0;
  double best_time = 0;
};

/// For each pair of ranks and bytes, simulates what `table` chooses for TCP and every algorithm of the collective, with
/// a pipeline or without. What is too large to simulate is left out, unless it was chosen, and so is what cannot be
/// faster than what was found, for the time that its sends alone take.
std::vector<Regret> regret(const algorithms::TuningTable& table, Collective collective, const std::vector<int>& ranks,
                           const std::vector<std::size_t>& sizes, const NetworkFile& file, const Told& tell = {});

std::string to_text(const std::vector<Regret>& all);

}  // namespace tutti::cli::simulate
