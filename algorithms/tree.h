#pragma once

#include <algorithm>
#include <vector>

#include "algorithms/partition.h"

namespace tutti::algorithms {

/// The k-nomial tree over ranks 0 .. ranks-1 with root 0: in base `radix`, a rank's parent is the rank with its lowest
/// non-zero digit cleared. The ranks below and including `v` are exactly [v, v + size(v)).
class KnomialTree {
 public:
  constexpr KnomialTree(int ranks, int radix) : ranks_(ranks), radix_(radix) {}

  constexpr int parent(int v) const {
    const long weight = weight_of(v);
    return v == 0 ? -1 : static_cast<int>(v - v / weight % radix_ * weight);
  }
  constexpr int size(int v) const { return static_cast<int>(std::min<long>(weight_of(v), ranks_ - v)); }
  /// The largest subtree first, since it takes most steps.
  std::vector<int> children(int v) const {
    std::vector<int> found;
    for (long weight = weight_of(v) / radix_; weight > 0; weight /= radix_)
      for (long child = v + weight; child < std::min<long>(v + weight * radix_, ranks_); child += weight)
        found.push_back(static_cast<int>(child));
    std::stable_sort(found.begin(), found.end(), [this](int a, int b) { return size(a) > size(b); });
    return found;
  }

 private:
  /// radix to the number of trailing zero digits; for the root, of all digits that ranks have.
  constexpr long weight_of(int v) const {
    long weight = 1;
    while (weight < ranks_ && v % (weight * radix_) == 0) weight *= radix_;
    return weight;
  }

  int ranks_;
  int radix_;
};
static_assert(KnomialTree{8, 2}.parent(6) == 4 && KnomialTree{7, 2}.size(4) == 3 && KnomialTree{10, 3}.parent(8) == 6);

}  // namespace tutti::algorithms
