#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/plan.h"
#include "tutti/types.h"

namespace tutti::algorithms {

/// Plans of all ranks that no builder made: an algorithm for one collective, one number of ranks and one root.
struct GivenPlans {
  std::string name{};
  Collective collective{};
  std::vector<Plan> plans{};  ///< by rank
  bool equal_parts = false;   ///< as in Entry
  bool rank_order = false;
  bool needs_room = false;  ///< as in Verdict; found out by read_plans()
};

inline constexpr std::size_t longest_name = 40;
/// What names of given plans are made of: letters, digits, '_', '-' and '.'.
bool may_be_in_name(char c);

/// As a file, which docs/exchange.md describes.
std::string write_plans(const GivenPlans& given);
/// Reads it, and proves it by the checker. Throws Error{invalid_argument} that names file and line, or what is wrong
/// with the plans.
GivenPlans read_plans(std::string_view text, std::string_view file_name);

}  // namespace tutti::algorithms
