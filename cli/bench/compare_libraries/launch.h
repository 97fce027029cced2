#pragma once

#include <string>
#include <vector>

#include "cli/bench/compare_libraries/rows.h"
#include "cli/bench/compare_libraries/sides.h"
#include "cli/measure/measure.h"

namespace tutti::cli::versus {

struct Limits {
  measure::Budget budget;
  int seconds = 0;  ///< limit for one start; 0: derived from its work
};

/// What a side says its version is, in one line; or why it does not, with its last output.
struct Version {
  std::string text;
  std::string trouble;
};
Version ask_version(const Sides& sides, const std::string& side);

/// Starts one side once for all of `sizes`, as one process group, and returns a row for each size that was measured.
/// After a failure, hang or crash it adds a row that says so for the size at which that happened. All processes of the
/// group have ended when it returns. Rows have no repetition yet.
std::vector<Row> launch(const Sides& sides, const Setting& setting, const Line& line,
                        const std::vector<std::size_t>& sizes, const Limits& limits, int cores);

}  // namespace tutti::cli::versus
