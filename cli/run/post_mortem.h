#pragma once

#include <string>
#include <vector>

#include "cli/run/ranks.h"

namespace tutti::cli {

// What the black boxes of the ranks of this node say once something has gone wrong. Programs without tutti leave them
// empty, and then nothing is said.

/// Of the ranks that have failed the one that the black box of `suspect`, who was seen to fail first, blames; else
/// `suspect`.
const Rank& first_to_fail(const Rank& suspect, const std::vector<Rank>& ranks);

/// What `culprit`, whose process has ended, was doing, and where the others were. Empty: nothing that its own words and
/// the others' do not say.
std::string last_moments(const Rank& culprit, const std::vector<Rank>& ranks);

/// Who keeps the others waiting in a job that did not end in time; empty: nobody, as far as is known.
std::string who_waits(const std::vector<Rank>& ranks);

}  // namespace tutti::cli
