#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tutti {

/// The candidate that `word` was probably meant to be (fewest edits, at most a third of its length plus one), or empty.
std::string nearest(std::string_view word, std::span<const std::string_view> candidates);

/// " Did you mean \"ring\"?" for an error message, or empty.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace tutti
