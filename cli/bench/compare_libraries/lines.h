#pragma once

#include <vector>

#include "cli/bench/compare_libraries/sides.h"
#include "cli/bench/options.h"

namespace tutti::cli::versus {

/// The points to measure: one collective, or the part of the grid that -g, -b, -e, --transport and a collective select.
/// Throws Error{invalid_argument} or {unsupported} for options that a comparison cannot honour.
std::vector<Line> lines_of(const bench::Options& options);

}  // namespace tutti::cli::versus
