#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/tune/tournament.h"

// The quality of a table: the loss of each of its choices against the best algorithm, and whether more bytes or fewer
// ranks ever cost much more than they should.

namespace tutti::cli::tune {

struct Regret {
  std::string collective;
  std::string transport;
  int ranks = 2;
  std::size_t bytes = 0;
  std::string chosen;
  double chosen_us = 0;
  std::string best;  ///< the chosen one, unless another was faster in most rounds of each race
  double best_us = 0;
  double regret = 0;  ///< chosen time over best time, round by round, minus 1; never below 0
  int rounds = 0;
  bool sure = false;  ///< there were enough rounds
};

/// The races must have kept the algorithm `chosen`. Fills in the results: the best is one that was faster in each race.
void judge(std::span<const Race> races, Regret& regret);

struct Cliff {
  const Regret* dear = nullptr;  ///< the point that costs too much
  const Regret* next = nullptr;  ///< the point that it is compared with
  double ratio = 0;
};

/// Chosen times that exceed those at the next larger size by a factor of 1.3, or those with the next larger measured
/// number of ranks by a factor of 2. Points with too few rounds are left out.
std::vector<Cliff> cliffs(std::span<const Regret> all);

/// A line for each point, worst and mean, and the cliffs.
std::string regret_text(std::span<const Regret> all);
std::string regret_csv(std::span<const Regret> all);

}  // namespace tutti::cli::tune
