#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tutti::cli {

/// Numbers as text for a page: 64 letters, no quote, bracket or backslash. Below 48 a number is one letter, below 1008
/// two, below 2^24 five; larger ones throw Error{invalid_argument}.
///
///   0..47         itself
///   48..1007      letter 48 + (v - 48) / 64, then (v - 48) % 64
///   1008..2^24-1  letter 63, then four of six bits each, the highest first
std::string letters(const std::vector<std::uint32_t>& numbers);

/// Shortens such text where it repeats itself, to about a tenth for plans. One of `repeat_marks`, the k-th, stands for
/// 5 + k letters that came before, the last one for 26 + what the two letters after it say; three letters follow that
/// say how far back they begin, less one. What is copied may overlap what it makes.
std::string squeezed(const std::string& text);

/// The other way round is done by cli/plan/page/web/plans.js, and by the test.
inline constexpr char letter_alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
inline constexpr char repeat_marks[] = "!#%()*+,./:;=?@[]^{|}~";

}  // namespace tutti::cli
