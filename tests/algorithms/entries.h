#pragma once

#include <vector>

#include "algorithms/catalogue.h"
#include "algorithms/check.h"
#include "algorithms/plan.h"

namespace tutti::algorithms::testing {

/// The plans of all ranks of a shape, whichever rank it names.
inline std::vector<Plan> build_all(const Entry& entry, Shape shape) {
  std::vector<Plan> plans;
  for (shape.rank = 0; shape.rank < shape.ranks; ++shape.rank) plans.push_back(entry.build(shape));
  return plans;
}

inline Claims claims_of(const Entry& entry) { return {entry.equal_parts, entry.rank_order}; }

}  // namespace tutti::algorithms::testing
