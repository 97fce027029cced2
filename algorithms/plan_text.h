#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/check.h"
#include "algorithms/plan.h"
#include "tutti/types.h"

namespace tutti::algorithms {

/// Plans of all ranks from a file: an algorithm for one collective, one number of ranks and one root.
struct GivenPlans {
  std::string name{};
  Collective collective{};
  std::vector<Plan> plans{};  ///< by rank
  bool equal_parts = false;   ///< as in Entry
  bool rank_order = false;
  bool needs_room = false;  ///< as in Verdict; set by read_plans()
};

inline constexpr std::size_t longest_name = 40;
/// Names of given plans consist of letters, digits, '_', '-' and '.'.
bool may_be_in_name(char c);

/// What an author wrote as plans, with the verdict of the checker, which names steps as the author did.
struct CheckedPlans {
  GivenPlans given;
  StepNames names;
  Verdict verdict;
};

/// The text of the file, as docs/interchange.md describes it.
std::string write_plans(const GivenPlans& given);
/// Parses the text. Throws Error{invalid_argument} that names file and line. Errors that the checker finds are in the
/// verdict, and name step and line.
CheckedPlans check_plans(std::string_view text, std::string_view file_name);
/// The same, and throws the first error that the checker finds.
GivenPlans read_plans(std::string_view text, std::string_view file_name);

}  // namespace tutti::algorithms
