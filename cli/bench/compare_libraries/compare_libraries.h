#pragma once

#include <string>
#include <vector>

#include "cli/bench/options.h"

namespace tutti::cli::versus {

/// `tutti bench --against`, `--grid`, `--summary`: other libraries beside tutti. Returns the exit code; throws Error.
int versus_main(const bench::Options& options, const std::vector<std::string>& arguments);

}  // namespace tutti::cli::versus
