#pragma once

#include <vector>

#include "algorithms/check.h"
#include "algorithms/plan.h"

namespace tutti::algorithms {

/// Ratios of Cost::block to Cost::message are examined in steps of a quarter of an octave, from 2^-10 to 2^10. Below
/// the first one the cost of blocks is negligible, above the last one that of messages.
inline constexpr int ratio_steps = 4;
inline constexpr int most_octaves = 10;

/// The time of the plans while the ratio is at least 2^(`from` / ratio_steps) and below the next pace's `from`:
/// `messages * Cost::message + blocks * Cost::block`.
struct Pace {
  int from = 0;
  int messages = 0;
  int blocks = 0;
  friend bool operator==(const Pace&, const Pace&) = default;
};

/// The time of the plans, one per rank, as a function of the costs of messages: the end of their replays. Adding is
/// free. Nothing for plans that are wrong.
std::vector<Pace> paces(Collective collective, const std::vector<Plan>& plans, Claims claims);

}  // namespace tutti::algorithms
