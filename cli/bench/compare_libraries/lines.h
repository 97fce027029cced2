#pragma once

#include <vector>

#include "cli/bench/compare_libraries/sides.h"
#include "cli/bench/options.h"

namespace tutti::cli::versus {

/// What is to be measured: one collective, or the grid or what -g, -b, -e, --transport and a collective leave of it.
/// Throws Error{invalid_argument} or {unsupported} for what cannot be compared.
std::vector<Line> lines_of(const bench::Options& options);

}  // namespace tutti::cli::versus
