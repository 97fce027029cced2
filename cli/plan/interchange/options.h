#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/plan/view.h"

namespace tutti::cli::interchange {

/// Files that `tutti plan` writes for other programs, by path; empty: none. "-" is standard output.
struct Outputs {
  std::string goal;
  std::string msccl;
  std::string save;            ///< for TUTTI_PLAN_FILE
  double calc_per_byte = 0.1;  ///< nanoseconds, for GOAL
  bool any() const { return !goal.empty() || !msccl.empty() || !save.empty(); }
  bool on_standard_output() const { return msccl == "-" || goal == "-" || save == "-"; }
};

/// Throws Error{unsupported} if a format cannot express the plan, {invalid_argument} for a wrong plan, and {system} if
/// a file cannot be written.
void write_files(const Outputs& outputs, const View& view, std::size_t bytes);

}  // namespace tutti::cli::interchange
