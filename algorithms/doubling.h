#pragma once

#include <span>
#include <vector>

#include "algorithms/plan.h"

namespace tutti::algorithms {

/// One of `count` ranks that double: those with the numbers 0, stride, 2 stride and so on.
struct Doubler {
  int self;
  int count;
  int stride = 1;

  /// Those beyond a power of two are paired with as many others: the even one gives its sum away and gets the result.
  bool is_paired() const { return self < 2 * folded(); }
  bool gives() const { return is_paired() && self % 2 == 0; }
  /// Whose sum comes in, in order: the one who gives, then one per round. None where this one gives.
  std::vector<int> partners() const;
  int rank_of(int other) const { return other * stride; }
  /// How many are beyond a power of two.
  int folded() const;
};

/// Where a sum lives after each of so many steps: never where it was, never in output first (that may be the input), in
/// output last. A single step cannot have all three.
std::vector<Blocks> places_of_sum(PlanBuilder& plan, Blocks output, std::size_t steps);

/// From `sum` to the sum of all in `output`, over `places`, one per partner.
void double_sums(PlanBuilder& plan, const Doubler& doubler, Blocks sum, std::span<const Blocks> places, Blocks output);

}  // namespace tutti::algorithms
