#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/tune/tournament.h"

// How good a table is: what each of its choices loses against the best there is, and whether more bytes or fewer ranks
// ever cost much more than they should.

namespace tutti::cli::tune {

struct Regret {
  std::string collective;
  std::string transport;
  int ranks = 2;
  std::size_t bytes = 0;
  std::string chosen;
  double chosen_us = 0;
  std::string best;  ///< the chosen one, if nobody was faster in most rounds of each race
  double best_us = 0;
  double regret = 0;  ///< chosen time over best time, round by round, minus 1; never below 0
  int rounds = 0;
  bool sure = false;  ///< enough rounds to say any of this
};

/// The races must have kept the one called `chosen`. Fills what they say: the best is who was faster in each of them.
void judge(std::span<const Race> races, Regret& regret);

struct Cliff {
  const Regret* dear = nullptr;  ///< costs more than it may,
  const Regret* next = nullptr;  ///< compared with this one
  double ratio = 0;
};

/// Chosen times that are more than 1.3 times those at the next larger size, or more than twice those among the next
/// larger number of ranks that was measured. Points without enough rounds are left out.
std::vector<Cliff> cliffs(std::span<const Regret> all);

/// A line for each point, worst and mean, and the cliffs.
std::string regret_text(std::span<const Regret> all);
std::string regret_csv(std::span<const Regret> all);

}  // namespace tutti::cli::tune
