#pragma once

#include <optional>
#include <vector>

#include "tools/trace_read.h"

namespace tutti::tools {

/// How long such a call, in nanoseconds, takes by its plan if every message takes what the messages of `calls`, all of
/// one algorithm, usually take once their sender gives them away, and nobody is late. Nothing: the plan is not known,
/// or no message is.
std::optional<double> predict(const TracedCall& call, const std::vector<const TracedCall*>& calls);

}  // namespace tutti::tools
