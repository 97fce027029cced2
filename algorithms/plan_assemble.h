#pragma once

#include <vector>

#include "algorithms/plan.h"

namespace tutti::algorithms {

/// `after` waits until `before` is complete.
struct Edge {
  StepId before = no_step;
  StepId after = no_step;
  friend bool operator==(const Edge&, const Edge&) = default;
};

/// A plan from steps and the order that somebody else decided on, where PlanBuilder would derive it. The steps of a
/// lane are issued in the order in which they stand; an edge may be there twice. Nothing is proved: see check.h.
Plan assemble(const Shape& shape, std::vector<Step> steps, std::vector<Edge> edges, std::vector<int> scratch_like);

}  // namespace tutti::algorithms
