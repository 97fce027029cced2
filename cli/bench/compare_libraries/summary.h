#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/bench/compare_libraries/figures.h"

namespace tutti::cli::versus {

/// One thing that the grid must reach.
struct Verdict {
  std::string what;
  double wanted = 0;
  double reached = 0;
  int points = 0;     ///< that it is made of; 0: nothing of it was measured
  std::string where;  ///< the point, where it is the worst of several
  bool met() const { return points > 0 && reached >= wanted; }
};

/// Of near rows only (of all, on a machine of one core).
std::vector<Verdict> judge(std::span<const Row> rows);

/// The verdicts as lines, and how many points have fewer than `repetitions` rows of tutti's or of the best rival's.
std::string summary_text(std::span<const Row> rows, int repetitions);

}  // namespace tutti::cli::versus
