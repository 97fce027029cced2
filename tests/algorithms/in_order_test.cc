// Steps that run one after the other, in the order of their list: when that ends, and with how many slots. The verdict
// is compared with a run of the plans that shares no code with the checker.

#include <doctest/doctest.h>

#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/catalogue.h"
#include "algorithms/check.h"
#include "algorithms/plan_assemble.h"
#include "tests/algorithms/hand_made.h"
#include "tests/algorithms/mutants.h"
#include "tests/support/sample.h"

namespace tutti::algorithms::testing {
namespace {

/// Lets the ranks take turns, a step each, and says whether all come to their ends.
bool comes_to_an_end(const std::vector<Plan>& plans, int slots) {
  std::map<std::pair<int, int>, int> link;  // sender and receiver: messages in slots
  std::vector<std::size_t> next(plans.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t rank = 0; rank < plans.size(); ++rank) {
      if (next[rank] == plans[rank].steps.size()) continue;
      const Step& step = plans[rank].steps[next[rank]];
      const int own = static_cast<int>(rank);
      if (step.verb == Verb::send && link[{own, step.peer}]++ == slots)
        --link[{own, step.peer}];
      else if (step.peer >= 0 && step.verb != Verb::send && link[{step.peer, own}]-- == 0)
        ++link[{step.peer, own}];
      else
        moved = ++next[rank] > 0;
    }
  }
  for (std::size_t rank = 0; rank < plans.size(); ++rank)
    if (next[rank] < plans[rank].steps.size()) return false;
  return true;
}

void check_agrees(const Verdict& verdict, const std::vector<Plan>& plans) {
  REQUIRE(verdict.ok());
  if (verdict.in_order && *verdict.in_order > 0) {
    CHECK(comes_to_an_end(plans, *verdict.in_order));
    CHECK_FALSE(comes_to_an_end(plans, *verdict.in_order - 1));
  } else if (!verdict.in_order) {
    CHECK_FALSE(comes_to_an_end(plans, static_cast<int>(verdict.messages)));
  }
}

}  // namespace

TEST_CASE("in order: the slots that one stream per rank needs are counted") {
  for (const int messages : {1, 2, 3, 7}) {
    const std::vector<Plan> plans = late_taker(messages);
    const Verdict verdict = check(Collective::barrier, plans);
    CHECK(verdict.in_order == messages);
    check_agrees(verdict, plans);
  }
  CHECK(check(Collective::all_gather, exchange()).in_order == 1);
  CHECK(check(Collective::all_reduce, plans_of(1, [](PlanBuilder& plan, int) { plan.copy(out(0), in(0)); })).in_order ==
        0);
}

TEST_CASE("in order: two ranks that both receive first deadlock, though the plan is right") {
  std::vector<Plan> plans = exchange();
  for (Plan& plan : plans) plan = assemble(plan.shape, {plan.steps[1], plan.steps[0], plan.steps[2]}, {{1, 2}}, {});
  const Verdict verdict = check(Collective::all_gather, plans);
  check_proves(verdict);
  CHECK_FALSE(verdict.in_order.has_value());
  check_agrees(verdict, plans);
}

TEST_CASE("in order: a list in which a step comes before one that it waits for is none") {
  const Blocks all = out(0, 2);
  const Blocks held{Buffer::scratch, 0, 2};
  std::vector<Plan> plans;
  plans.push_back(
      assemble({0, 2, 1}, {{Verb::copy, -1, all, held, {}}, {Verb::recv, 1, held, {}, {}}}, {{1, 0}}, {0, 1}));
  plans.push_back(assemble({1, 2, 1}, {{Verb::send, 0, {}, all, {}}}, {}, {}));
  const Verdict verdict = check(Collective::broadcast, plans);
  check_proves(verdict);
  CHECK_FALSE(verdict.in_order.has_value());
}

TEST_CASE("in order: every rank's steps in another order, and the verdict is still that of a run") {
  std::size_t mutants = 0, right = 0, deadlocks = 0, more_slots = 0;
  tutti::testing::Lot lot{2, 16};
  for (const Entry& entry : catalogue())
    for (const int ranks : {2, 3, 4, 5, 8}) {
      const Shape shape{0, ranks, 0, entry.has_pipeline ? 2 : 1, entry.has_radix ? 3 : 2};
      std::vector<Plan> plans;
      for (int rank = 0; rank < ranks; ++rank)
        plans.push_back(entry.build({rank, ranks, 0, shape.pipeline, shape.radix}));
      for (StepId step = 0; step + 1 < plans[0].steps.size(); ++step) {
        if (!lot.draws()) continue;
        std::vector<Plan> swapped = plans;
        for (Plan& plan : swapped)
          if (step + 1 < plan.steps.size())
            plan = apply({Mutation::Kind::swap, plan.shape.rank, step, 0}, entry.collective, plan).value_or(plan);
        const Verdict verdict = check(entry.collective, swapped, {entry.equal_parts, entry.rank_order});
        ++mutants;
        if (!verdict.ok()) continue;
        ++right;
        INFO(name_of(entry.collective), " ", std::string(entry.name), " with ", ranks, " ranks, step ", step);
        check_agrees(verdict, swapped);
        if (!verdict.in_order) ++deadlocks;
        if (verdict.in_order > 1) ++more_slots;
      }
    }
  std::printf("%zu swaps in all ranks, %zu still right, of which %zu deadlock in order and %zu need more slots\n",
              mutants, right, deadlocks, more_slots);
  CHECK(deadlocks > 0);  // sanitizers try a few of them
}

}  // namespace tutti::algorithms::testing
