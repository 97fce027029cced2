#pragma once

#include <utility>
#include <vector>

namespace tutti::algorithms {

/// The rounds in which a circle of `ranks` halves what each rank holds, rounding up: from `held` parts to `kept`.
struct Halving {
  int held;
  int kept;
  int moved() const { return held - kept; }
};
inline std::vector<Halving> halvings(int ranks) {
  std::vector<Halving> rounds;
  for (int held = ranks; held > 1; held = rounds.back().kept) rounds.push_back({held, (held + 1) / 2});
  return rounds;
}

}  // namespace tutti::algorithms
