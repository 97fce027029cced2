#pragma once

#include <string>
#include <string_view>

#include "algorithms/plan_text.h"
#include "cli/plan/view.h"

namespace tutti::cli::interchange {

/// Reads a file of plans, or a program of MSCCL, which begins with '<'. Throws Error{invalid_argument} that begins with
/// `who` or the path if it cannot be read, is inconsistent or cannot be a plan. Errors that the checker finds are in
/// the verdict.
algorithms::CheckedPlans import_file(std::string_view who, const std::string& path);

/// Throws Error{invalid_argument} with all errors that the checker found.
void require_right(std::string_view who, const std::string& path, const algorithms::Verdict& verdict);

/// A plan from a file, to be looked at like one of the catalogue. `view` and its copies refer to the other members, so
/// the object must not move while they exist.
struct Foreign {
  algorithms::GivenPlans given;
  std::string idea;
  algorithms::Entry entry;
  View view;
};
/// As import_file() does.
void load_foreign(std::string_view who, const std::string& path, Foreign& foreign);

}  // namespace tutti::cli::interchange
