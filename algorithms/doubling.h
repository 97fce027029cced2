#pragma once

#include <span>
#include <vector>

#include "algorithms/plan.h"

namespace tutti::algorithms {

/// One of `count` ranks that run doubling: those with the numbers 0, stride, 2 stride and so on, or `ranks`.
struct Doubler {
  int self;
  int count;
  int stride = 1;
  std::span<const int> ranks = {};
  bool lands = false;  ///< sums of others are received first and added then, since on a board they may come before the
                       ///< own sum is there

  /// Ranks beyond a power of two are paired with as many others: the even one sends its sum and receives the result.
  bool is_paired() const { return self < 2 * folded(); }
  bool gives() const { return is_paired() && self % 2 == 0; }
  /// The partners whose sums are received, in order: the paired rank, then one per round. None if this rank only sends.
  std::vector<int> partners() const;
  int rank_of(int other) const { return ranks.empty() ? other * stride : ranks[static_cast<std::size_t>(other)]; }
  /// The number of ranks beyond a power of two.
  int folded() const;
};

/// Where the sum is after each of that many steps: never where it was, never in output first (that may be the input),
/// in output last. A single step cannot fulfil all three.
std::vector<Blocks> places_of_sum(PlanBuilder& plan, Blocks output, std::size_t steps);

/// Takes `sum` to the sum of all ranks in `output`, through `places`, one per partner.
void double_sums(PlanBuilder& plan, const Doubler& doubler, Blocks sum, std::span<const Blocks> places, Blocks output);

}  // namespace tutti::algorithms
