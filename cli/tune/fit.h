#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "cli/tune/tournament.h"

// Turns measured curves into a few switch points.

namespace tutti::cli::tune {

struct Sample {
  std::string algorithm;
  double ratio = 1;  ///< its time over the fastest's at that size
};

/// One size of one collective, transport and number of ranks.
struct Measured {
  std::size_t bytes = 0;
  std::vector<Sample> samples;
  std::string builtin;      ///< what the built-in table chooses
  double microseconds = 0;  ///< of the fastest
  int rounds = 0;

  /// 0: not measured.
  double ratio_of(const std::string& algorithm) const;
};

/// Combines several races at one point: geometric means of the ratios to the fastest algorithm that ran in all of them.
/// Races with a single round are ignored; if all are like that, `rounds` is 0.
Measured together(std::span<const Race> races);

struct Segment {
  std::string algorithm;
  std::size_t to = std::numeric_limits<std::size_t>::max();  ///< last size, included
};

/// The algorithms to use from 0 bytes on, each up to its end. To avoid noise, a switch must gain 3 % in all, and so
/// must leaving the built-in table's choice. `points` are sorted by size; without points there are no segments.
std::vector<Segment> fit(std::span<const Measured> points);

const Segment& segment_at(std::span<const Segment> segments, std::size_t bytes);

/// Whether to measure an algorithm that had these ratios at the previous sizes, smaller ones first. Not if it is far
/// behind and does not catch up.
bool is_worth_a_try(std::span<const double> ratios);

}  // namespace tutti::cli::tune
