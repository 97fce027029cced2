#pragma once

#include <vector>

#include "algorithms/check.h"
#include "algorithms/plan.h"

namespace tutti::algorithms {

/// Ratios of Cost::block to Cost::message are looked at in steps of a fourth of an octave, from 2^-10 to 2^10. Below
/// the first one blocks cost nothing to speak of, above the last one messages.
inline constexpr int ratio_steps = 4;
inline constexpr int most_octaves = 10;

/// What plans take while the ratio is 2^(`from` / ratio_steps) or some more, the next pace's `from` excluded:
/// `messages * Cost::message + blocks * Cost::block`.
struct Pace {
  int from = 0;
  int messages = 0;
  int blocks = 0;
  friend bool operator==(const Pace&, const Pace&) = default;
};

/// The time of the plans, one per rank, as a function of what messages cost: the end of their replays. Adding up is
/// free. Nothing for plans that are wrong.
std::vector<Pace> paces(Collective collective, const std::vector<Plan>& plans, Claims claims);

}  // namespace tutti::algorithms
