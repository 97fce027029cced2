#pragma once

#include <string>
#include <vector>

#include "algorithms/catalogue.h"
#include "algorithms/select.h"

namespace tutti::cli {

/// The choice of the table that tutti::connect() would use. `why` gets a sentence.
algorithms::Choice ask_table(const algorithms::Situation& situation, std::string& why);

/// The choice with another radix and pipeline, unless they are 0, by the rules for name:RADIX*PIPELINE.
algorithms::Choice with_parameters(const algorithms::Choice& choice, int radix, int pipeline);

/// The domains of that many ranks, by the lines for ranks of a file such as TUTTI_TOPOLOGY names. Throws
/// Error{invalid_argument} if they are in one domain, or in none.
std::vector<int> read_domains(const std::string& path, int ranks);

}  // namespace tutti::cli
