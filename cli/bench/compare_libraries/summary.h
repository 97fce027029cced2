#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/bench/compare_libraries/figures.h"

namespace tutti::cli::versus {

/// One requirement on the grid.
struct Requirement {
  std::string what;
  double wanted = 0;
  bool at_most = false;  ///< it may not be more than `wanted`; else not less
  double reached = 0;
  int points = 0;          ///< number of points; 0: none was measured
  std::string where = {};  ///< the worst of several points
  bool met() const { return points > 0 && (at_most ? reached <= wanted : reached >= wanted); }
};

/// All bars of the transports in the rows. Uses near rows only (all rows on a machine with one core).
std::vector<Requirement> judge(std::span<const Row> rows);

/// The requirements as lines, and the number of points with fewer than `repetitions` rows of tutti or of the best
/// rival.
std::string summary_text(std::span<const Row> rows, int repetitions);

}  // namespace tutti::cli::versus
