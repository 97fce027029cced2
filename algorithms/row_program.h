#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "algorithms/plan.h"

namespace tutti::algorithms {

/// What the plans of a sum become on a board if the sum passes all ranks in one order, as in a chain. The ranks stand
/// in a row. Each adds its own to a sum that stays where it is, in memory that all of them map. The plans' messages
/// from one to the next say no more than that the next one may add. Slices of the vector follow each other, so that all
/// ranks are at work at the same time.
///
/// Compared with posts that are summed afterwards (BoardProgram), the memory that all ranks touch is a few slices,
/// however many ranks there are, and stays in the caches.
struct RowProgram {
  std::vector<int> row;   ///< in the order in which they add; the first one writes its own
  bool is_spread = true;  ///< all ranks read the sum; else only the last one gets it
  friend bool operator==(const RowProgram&, const RowProgram&) = default;
};

/// The program for the plans of all ranks, or why they have none, as the end of a sentence that begins with "it". Every
/// rank that asks gets the same answer.
struct RowLowering {
  std::optional<RowProgram> program;
  std::string why_not;
};
RowLowering lower_to_row(std::span<const Plan> plans);

}  // namespace tutti::algorithms
