#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "algorithms/plan_text.h"
#include "cli/plan/view.h"

namespace tutti::cli::exchange {

/// Files that `tutti plan` writes for other programs, by path; empty: none. "-" is standard output.
struct Outputs {
  std::string goal;
  std::string msccl;
  std::string save;            ///< for TUTTI_PLAN_FILE
  double calc_per_byte = 0.1;  ///< nanoseconds, for GOAL
  bool any() const { return !goal.empty() || !msccl.empty() || !save.empty(); }
};

/// Throws Error{unsupported} where a format cannot say it, {invalid_argument} for a plan that is wrong, {system} where
/// a file cannot be written.
void write_files(const Outputs& outputs, const View& view, std::size_t bytes);

/// A plan that came from elsewhere, as what `tutti plan` shows. `view` and its copies refer to the rest: it stays where
/// it is, as long as they do.
struct Foreign {
  algorithms::GivenPlans given;
  std::string idea;
  algorithms::Entry entry;
  View view;
};
/// Throws as import_file does, and where the checker finds it wrong.
void load_foreign(const std::string& path, Foreign& foreign);

}  // namespace tutti::cli::exchange
