#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tutti {

/// The candidate that `word` was probably meant to be, or empty. It takes the fewest edits (letters inserted, removed,
/// replaced or swapped) in at most a third of the differing part (one in a short word), or is the only candidate that
/// begins with `word`.
std::string nearest(std::string_view word, std::span<const std::string_view> candidates);

/// " Did you mean \"ring\"?" for an error message, or empty.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace tutti
