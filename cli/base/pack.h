#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tutti::cli {

/// Numbers as text for a page: 64 letters, without quotes, brackets and backslashes. A number below 48 is one letter,
/// below 1008 two, below 2^24 five; larger ones throw Error{invalid_argument}.
///
///   0..47         itself
///   48..1007      letter 48 + (v - 48) / 64, then (v - 48) % 64
///   1008..2^24-1  letter 63, then four of six bits each, the highest first
std::string letters(const std::vector<std::uint32_t>& numbers);

/// Shortens such text where it repeats itself, to about a tenth for plans. The k-th of `repeat_marks` stands for 5 + k
/// letters that came before, the last one for 26 plus the number in the two letters after it. Three more letters say
/// how far back they begin, less one. The source of a copy may overlap its destination.
std::string squeezed(const std::string& text);

/// cli/plan/page/web/plans.js and the test decode it.
inline constexpr char letter_alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
inline constexpr char repeat_marks[] = "!#%()*+,./:;=?@[]^{|}~";

}  // namespace tutti::cli
