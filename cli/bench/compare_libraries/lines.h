#pragma once

#include <span>
#include <vector>

#include "cli/bench/compare_libraries/rows.h"
#include "cli/bench/compare_libraries/sides.h"
#include "cli/bench/options.h"

namespace tutti::cli::versus {

/// The points to measure: one collective, or the part of the grid that -g, -b, -e, --transport and a collective select.
/// Throws Error{invalid_argument} or {unsupported} for options that a comparison cannot honour.
std::vector<Line> lines_of(const bench::Options& options);
/// The points of those rows, of those that such options select if they are given. Throws Error{invalid_argument} if
/// there are none.
std::vector<Line> lines_of_rows(const bench::Options& options, std::span<const Row> rows);

}  // namespace tutti::cli::versus
