#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "algorithms/plan_text.h"
#include "cli/plan/view.h"

namespace tutti::cli::interchange {

/// Files that `tutti plan` writes for other programs, by path; empty: none. "-" is standard output.
struct Outputs {
  std::string goal;
  std::string msccl;
  std::string save;            ///< for TUTTI_PLAN_FILE
  double calc_per_byte = 0.1;  ///< nanoseconds, for GOAL
  bool any() const { return !goal.empty() || !msccl.empty() || !save.empty(); }
};

/// Throws Error{unsupported} if a format cannot express the plan, {invalid_argument} for a wrong plan, and {system} if
/// a file cannot be written.
void write_files(const Outputs& outputs, const View& view, std::size_t bytes);

/// A plan from a file, for display by `tutti plan`. `view` and its copies refer to the other members, so the object
/// must not move while they exist.
struct Foreign {
  algorithms::GivenPlans given;
  std::string idea;
  algorithms::Entry entry;
  View view;
};
/// Throws as import_file does, and if the checker finds an error.
void load_foreign(const std::string& path, Foreign& foreign);

}  // namespace tutti::cli::interchange
