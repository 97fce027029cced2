#pragma once

#include <string>
#include <vector>

#include "cli/bench/compare_libraries/rows.h"
#include "cli/bench/compare_libraries/sides.h"
#include "cli/measure/measure.h"

namespace tutti::cli::versus {

struct Limits {
  measure::Budget budget;
  int seconds = 0;  ///< of one start; 0: made from what it has to do
};

/// Starts one side once for all of `sizes`, which is one process group, and returns a row for each size that it
/// measured; where it failed, hung or crashed, also one that says so for the size at which it did. Ends it, and
/// everything in its group, before it returns. Rows have no repetition yet.
std::vector<Row> launch(const Sides& sides, const Setting& setting, const Line& line,
                        const std::vector<std::size_t>& sizes, const Limits& limits, int cores);

}  // namespace tutti::cli::versus
