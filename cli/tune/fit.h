#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "cli/tune/tournament.h"

// From measured curves to few switch points.

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

  /// 0: it was not measured.
  double ratio_of(const std::string& algorithm) const;
};

/// What several races at one point say together: mean ratios (geometric), of the fastest that ran in all of them.
/// Races in which there was a single round say nothing; all like that: rounds is 0.
Measured together(std::span<const Race> races);

struct Segment {
  std::string algorithm;
  std::size_t to = std::numeric_limits<std::size_t>::max();  ///< last size, included
};

/// The algorithms to use from 0 bytes on, each up to its end, so that what is lost to noise stays small: a switch must
/// gain 3 % in all, and so must leaving the built-in table's choice. `points` by size; none: no segments.
std::vector<Segment> fit(std::span<const Measured> points);

const Segment& segment_at(std::span<const Segment> segments, std::size_t bytes);

/// Whether to spend time on an algorithm whose ratios at the sizes before, smaller ones first, were these: not when it
/// is far behind and does not catch up.
bool is_worth_a_try(std::span<const double> ratios);

}  // namespace tutti::cli::tune
