#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "algorithms/replay.h"

namespace tutti::cli {

/// Columns of a terminal.
inline constexpr std::size_t line_width = 80;

/// Breaks lines at spaces so that none exceeds `line_width`; continuation lines are indented by `hang`. Words longer
/// than a line stay as they are.
std::string wrapped(const std::string& text, std::size_t hang);

/// "1 block", "3 blocks"
std::string plural(std::size_t count, const std::string& what);

/// "64 KiB"
std::string size_text(double bytes);

/// "2.74 ms", of picoseconds.
std::string time_text(algorithms::Ticks picoseconds);

/// "0-3, 7, 9-12"
std::string compress(const std::vector<int>& ascending);

}  // namespace tutti::cli
