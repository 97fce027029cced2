#pragma once

#include <optional>
#include <string>
#include <vector>

#include "algorithms/plan.h"
#include "tutti/types.h"

namespace tutti::algorithms::testing {

/// One small change of one rank's plan.
struct Mutation {
  enum class Kind {
    drop,       ///< a step is missing
    duplicate,  ///< a step happens twice
    redirect,   ///< a step talks to another peer
    swap,       ///< a step and the one after it change places
    shift,      ///< an operand begins one block earlier or later
    rebuffer,   ///< an operand lies in another buffer
    reverb,     ///< a step reduces instead of overwriting, or the other way round
    unorder,    ///< one step does not wait for another
  };
  Kind kind;
  int rank;
  StepId step;
  int variant;  ///< which of several such changes
};

std::string to_string(const Mutation& mutation);

std::vector<Mutation> all_mutations(const Plan& plan);

/// The changed plan. Apart from `unorder`, its order is derived afresh from the changed list of steps. Nothing where
/// the change makes no sense, such as a shift to a scratch slot that does not exist.
std::optional<Plan> apply(const Mutation& mutation, Collective collective, const Plan& plan);

/// The plan that PlanBuilder makes of a plan's list of steps.
Plan rebuild(Collective collective, const Plan& plan, const std::vector<Step>& steps);

/// They do the same with the same peer; operands that neither uses may differ.
bool same_step(const Step& a, const Step& b);

/// Same steps, lanes and order.
bool same(const Plan& a, const Plan& b);
/// Same steps, lanes and order once the steps `step` and `step + 1` have changed names.
bool same_but_for_names(const Plan& a, const Plan& b, StepId step);
/// Whether the order still implies the edge that an `unorder` mutation took out.
bool edge_is_implied(const Mutation& mutation, const Plan& original, const Plan& mutated);

}  // namespace tutti::algorithms::testing
