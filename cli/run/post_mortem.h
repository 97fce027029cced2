#pragma once

#include <string>
#include <vector>

#include "cli/run/ranks.h"

namespace tutti::cli {

// Evaluates the black boxes of this node's ranks after a failure. Programs without tutti leave them empty, and then
// nothing is reported.

/// The first rank that failed: the one that the black box of `suspect`, whose failure was seen first, blames if that
/// has failed, too; else `suspect`.
const Rank& first_to_fail(const Rank& suspect, const std::vector<Rank>& ranks);

/// The call of `culprit`, whose process has ended, and the progress of the others. Empty if that adds nothing to the
/// messages of the ranks.
std::string last_moments(const Rank& culprit, const std::vector<Rank>& ranks);

/// The ranks that still run in a job that did not end in time, or what else it waits for; `all_well`: all nodes have
/// said that theirs have ended well.
std::string still_running(const std::vector<Rank>& ranks, bool all_well);

/// The rank that the others wait for in a job that did not end in time; empty if unknown.
std::string who_waits(const std::vector<Rank>& ranks);

}  // namespace tutti::cli
