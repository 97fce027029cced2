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

/// A plan from given steps and a given order, which PlanBuilder would otherwise derive. The steps of a lane are issued
/// in the order of the list; an edge may occur twice. Nothing is proved here: see check.h.
Plan assemble(const Shape& shape, std::vector<Step> steps, std::vector<Edge> edges, std::vector<int> scratch_like);

}  // namespace tutti::algorithms
