// A contribution that gets lost: the checker names the step at which it was.

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/check.h"
#include "algorithms/describe.h"
#include "tests/algorithms/hand_made.h"
#include "tests/support/sample.h"

namespace tutti::algorithms::testing {
namespace {

using enum Collective;

struct SpoiltCount {
  int spoilt = 0;
  int named = 0;
};

bool all_say(const Verdict& verdict, const std::string& text) {
  return std::all_of(verdict.problems.begin(), verdict.problems.end(),
                     [&](const std::string& problem) { return problem.find(text) != std::string::npos; });
}

/// Each reduction on arrival in turn becomes a plain receive, which loses what the rank had.
void spoil_each(const Entry& entry, int ranks, SpoiltCount& count) {
  std::vector<Plan> plans;
  for (int rank = 0; rank < ranks; ++rank) plans.push_back(entry.build({rank, ranks, 0, 1, 2}));
  for (int rank = 0; rank < ranks; ++rank)
    for (StepId id = 0; id < plans[static_cast<std::size_t>(rank)].steps.size(); ++id) {
      Step& step = plans[static_cast<std::size_t>(rank)].steps[id];
      if (step.verb != Verb::recv_reduce) continue;
      const Step right = std::exchange(step, {Verb::recv, step.peer, step.dst, {}, {}});
      const Verdict verdict = check(entry.collective, plans);
      step = right;
      ++count.spoilt;
      const std::string here = " in rank " + std::to_string(rank) + " step ";
      CAPTURE(entry.name);
      CAPTURE(problems(verdict));
      REQUIRE_FALSE(verdict.ok());
      REQUIRE(all_say(verdict, here));
      if (all_say(verdict, here + std::to_string(id) + " (recv from ")) ++count.named;
    }
}

TEST_CASE("a reduction turned into a receive is found: its rank is named, and nearly always its step") {
  SpoiltCount count;
  for (const Collective collective : {all_reduce, reduce, reduce_scatter})
    for (const Entry& entry : catalogue(collective))
      for (const int ranks : {2, 3, 4, 5, 8}) spoil_each(entry, ranks, count);
  CHECK(count.spoilt > 1000);
  CHECK(count.named > count.spoilt * 94 / 100);  // others receive into scratch, and a copy of that is named
}

/// Up a chain from the last rank to rank 0 and down again, in block 0; what `spoil` says is done instead.
std::vector<Plan> up_and_down(int ranks, const std::function<bool(PlanBuilder&, int rank)>& spoil_up) {
  return plans_of(ranks, [&](PlanBuilder& plan, int rank) {
    for (int block = 1; block < ranks; ++block) {  // the others, rightly: everything to everybody
      const Blocks own = plan.scratch(in(block));
      plan.copy(own, in(block));
      for (int peer = 0; peer < ranks; ++peer)
        if (peer != rank) plan.send(peer, own);
      plan.copy(out(block), own);
      for (int peer = 0; peer < ranks; ++peer)
        if (peer != rank) plan.recv_reduce(peer, out(block));
    }
    if (!spoil_up(plan, rank)) {
      if (rank + 1 < ranks)
        plan.recv_reduce(rank + 1, out(0), in(0));
      else
        plan.copy(out(0), in(0));
      if (rank > 0) plan.send(rank - 1, out(0));
    }
    if (rank > 0) plan.recv(rank - 1, out(0));
    if (rank + 1 < ranks) plan.send(rank + 1, out(0));
  });
}

std::string step_of(const std::vector<Plan>& plans, int rank, Verb verb, Blocks dst) {
  const Plan& plan = plans[static_cast<std::size_t>(rank)];
  std::size_t id = plan.steps.size();
  while (id > 0 && !(plan.steps[id - 1].verb == verb && plan.steps[id - 1].dst == dst)) --id;
  REQUIRE(id > 0);
  return "rank " + std::to_string(rank) + " step " + std::to_string(id - 1) + " (" + label(plan.steps[id - 1]) + ")";
}

TEST_CASE("a contribution that is overwritten on its way") {
  const auto plans = up_and_down(4, [](PlanBuilder& plan, int rank) {
    if (rank != 1) return false;
    plan.recv(2, out(0));      // what ranks 2 and 3 have added up
    plan.copy(out(0), in(0));  // and is gone
    plan.send(0, out(0));
    return true;
  });
  check_says(all_reduce, plans,
             "rank 3: ends with output[0] lacking ranks 2, 3: that of rank 2 was lost in " +
                 step_of(plans, 1, Verb::copy, out(0)) + ", which overwrites it in output[0]");
}

TEST_CASE("a contribution that its own rank leaves out") {
  const auto plans = up_and_down(4, [](PlanBuilder& plan, int rank) {
    if (rank != 2) return false;
    const Blocks passing = plan.scratch(in(0));
    plan.recv(3, passing);
    plan.send(1, passing);
    return true;
  });
  check_says(all_reduce, plans,
             "rank 0: ends with output[0] lacking rank 2: left out in " +
                 step_of(plans, 2, Verb::recv, {Buffer::scratch, 3, 1}) + ", though rank 2 has it");
}

TEST_CASE("a contribution that is never sent") {
  const auto plans = up_and_down(3, [](PlanBuilder& plan, int rank) {
    if (rank == 1) {
      plan.copy(out(0), in(0));
      plan.send(0, out(0));
    }
    return rank > 0;
  });
  check_says(all_reduce, plans,
             "rank 0: ends with output[0] lacking rank 2: never sent to where it is needed; it would "
             "have had to come before " +
                 step_of(plans, 0, Verb::recv_reduce, out(0)) + ", the last to write there");
}

TEST_CASE("a result that nothing is written to") {
  check_says(reduce,
             plans_of(2,
                      [](PlanBuilder& plan, int rank) {
                        if (rank == 0) plan.copy(out(1), in(1));
                      }),
             "rank 0: ends with output[0] empty");
  // In place there is something all the same.
  check_says(reduce, plans_of(2, [](PlanBuilder&, int) {}),
             "rank 0: ends with output[0] lacking rank 1 (in place): no step of rank 0 writes there");
}

TEST_CASE("a part that is moved and then overwritten, or never was there") {
  const auto exchanged = [](bool first) {
    const auto plans = plans_of(
        2,
        [first](PlanBuilder& plan, int rank) {
          const Blocks wrong = plan.scratch(in(1));
          plan.send(1 - rank, in(1 - rank));
          plan.recv(1 - rank, rank == 0 && !first ? wrong : out(1 - rank));
          plan.copy(out(rank), in(rank));
          if (rank == 0) plan.copy(out(1), in(0));
        },
        InPlace::never);
    return check(all_to_all, plans, {.equal_parts = true});
  };
  const std::string what = "rank 0: ends with output[1] holding block 0 of rank 0 instead of block 0 of rank 1: ";
  check_says(exchanged(true), what + "lost in rank 0 step 3 (copy), which overwrites it in output[1]");
  check_says(exchanged(false), what + "put there by rank 0 step 3 (copy)");
}

TEST_CASE("of large runs a few contributions are followed, of small ones all that are missing") {
  const auto alone = [](int pipeline) {
    std::vector<Plan> plans;
    for (int rank = 0; rank < 2; ++rank) {
      PlanBuilder plan{{.rank = rank, .ranks = 2, .pipeline = pipeline}};
      plan.copy(out(0, 2 * pipeline), in(0, 2 * pipeline));
      plans.push_back(std::move(plan).build());
    }
    return check(all_reduce, plans);
  };
  const Verdict small = alone(10), large = alone(300'000);
  REQUIRE(small.problems.size() == 20);
  CHECK(all_say(small, ": never sent to where it is needed"));
  REQUIRE(large.problems.size() == 20);
  check_says(large, "rank 0: ends with output[2] lacking rank 1: never sent to where it is needed");
  CHECK(large.problems[3].ends_with("rank 0: ends with output[3] lacking rank 1"));
}

TEST_CASE("a contribution missing in many results of a large run is followed once") {
  constexpr int ranks = 10;
  const int pipeline = tutti::testing::only_a_sanitized_sample() ? 5000 : 15'000;
  const Blocks all = out(0, ranks * pipeline), from = in(0, ranks * pipeline);
  std::vector<Plan> plans;
  for (int rank = 0; rank < ranks; ++rank) {  // up a chain to rank 0 and down again
    PlanBuilder plan{{.rank = rank, .ranks = ranks, .pipeline = pipeline}};
    if (rank + 1 < ranks)
      plan.recv_reduce(rank + 1, all, from);
    else
      plan.copy(all, from);
    if (rank == 1) plan.copy(out(0), in(0));  // what came from the ranks above is gone
    if (rank > 0) plan.send(rank - 1, all);
    if (rank > 0) plan.recv(rank - 1, all);
    if (rank + 1 < ranks) plan.send(rank + 1, all);
    plans.push_back(std::move(plan).build());
  }
  const Verdict verdict = check(all_reduce, plans);
  CHECK(verdict.problems.size() == ranks);
  CHECK(all_say(verdict, "that of rank 2 was lost in rank 1 step 1 (copy)"));
}

}  // namespace
}  // namespace tutti::algorithms::testing
