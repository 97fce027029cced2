#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "cli/bench/compare_libraries/figures.h"

// Where tutti stands beside each library, and beside the best of all at each point.

namespace tutti::cli::versus {

/// Ratios of times at some points: a library's over tutti's, so that above 1 tutti is faster.
struct Score {
  int points = 0;
  double mean = 0;  ///< geometric
  double worst = 0;
  Point where;      ///< is worst
  int below_1 = 0;  ///< points
};

inline constexpr std::string_view best_of_all = "best";

struct Standing {
  std::string transport;
  std::string side;  ///< a library, or `best_of_all`
  Score best;        ///< with the best setting at each point
  Score shipped;     ///< of both with shipped_setting(); no points: the library has no such rows
};

/// One for each transport and library that has a ratio at one of `points` in the usual state of the cores, and the best
/// of all behind several libraries of a transport.
std::vector<Standing> standings(std::span<const Row> rows, std::span<const Point> points);

using Versions = std::map<std::string, std::string>;

/// As lines of a comment under a table; empty if there are none.
std::string standings_text(std::span<const Standing> all, const Versions& versions);
/// Short lines below a chart: one for each, then the versions.
std::vector<std::string> standings_captions(std::span<const Standing> all, const Versions& versions);

}  // namespace tutti::cli::versus
