// The derived order: which step waits for which, and nothing more.

#include "algorithms/plan.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "algorithms/families.h"
#include "algorithms/partition.h"

namespace tutti::algorithms {
namespace {

using Steps = std::vector<StepId>;

/// Rank 0 of four, one block per rank.
constexpr Shape four{.rank = 0, .ranks = 4};
constexpr Blocks in(int first, int count = 1) { return {Buffer::input, first, count}; }
constexpr Blocks out(int first, int count = 1) { return {Buffer::output, first, count}; }

Steps predecessors(const Plan& plan, StepId step) {
  Steps found;
  for (StepId before = 0; before < plan.steps.size(); ++before)
    for (const StepId after : plan.successors(before))
      if (after == step) found.push_back(before);
  CHECK(found.size() == plan.waits_for[step]);
  return found;
}

TEST_CASE("a step that reads a block waits for its last writer") {
  PlanBuilder builder{four};
  builder.recv(1, out(0));
  builder.recv_reduce(2, out(0));
  builder.send(3, out(0));
  const Plan plan = std::move(builder).build();
  CHECK(predecessors(plan, 0) == Steps{});
  CHECK(predecessors(plan, 1) == Steps{0});
  CHECK(predecessors(plan, 2) == Steps{1});
}

TEST_CASE("a step that writes a block waits for all who read it since, not for the writer they waited for") {
  PlanBuilder builder{four};
  builder.recv(1, out(0));
  builder.send(2, out(0));
  builder.send(3, out(0));
  builder.recv(2, out(0));
  builder.recv(3, out(0));
  const Plan plan = std::move(builder).build();
  CHECK(predecessors(plan, 3) == Steps{1, 2});
  CHECK(predecessors(plan, 4) == Steps{3});
}

TEST_CASE("steps on different blocks do not wait for each other") {
  PlanBuilder builder{four};
  builder.recv(1, out(0));
  builder.recv(1, out(1));
  builder.send(2, out(2, 2));
  const Plan plan = std::move(builder).build();
  for (StepId step = 0; step < 3; ++step) CHECK(predecessors(plan, step) == Steps{});
}

TEST_CASE("two steps that meet in several blocks are tied once") {
  PlanBuilder builder{four};
  builder.recv(1, out(0, 4));
  builder.send(2, out(1, 3));
  builder.recv_reduce(3, out(0, 3), out(1, 3));
  const Plan plan = std::move(builder).build();
  CHECK(predecessors(plan, 1) == Steps{0});
  CHECK(predecessors(plan, 2) == Steps{0, 1});
  CHECK(plan.successor.size() == 3);
}

TEST_CASE("input and output blocks of one number are one place, unless the plan never runs in place") {
  for (const InPlace in_place : {InPlace::allowed, InPlace::never}) {
    PlanBuilder builder{four, in_place};
    builder.send(1, in(2));
    builder.recv(1, out(2));
    const Plan plan = std::move(builder).build();
    CHECK(predecessors(plan, 1) == (in_place == InPlace::allowed ? Steps{0} : Steps{}));
  }
}

TEST_CASE("scratch slots are places of their own and as large as the blocks they are for") {
  PlanBuilder builder{four};
  const Blocks first = builder.scratch(in(1, 2));
  const Blocks second = builder.scratch(out(3, 2));  // wraps
  const Blocks third = builder.scratch(second);
  CHECK(first == Blocks{Buffer::scratch, 0, 2});
  CHECK(second == Blocks{Buffer::scratch, 2, 2});
  builder.recv(1, first);
  builder.recv(2, second);
  builder.copy(third, second);
  builder.send(1, out(0));
  const Plan plan = std::move(builder).build();
  CHECK(plan.scratch_like == std::vector<int>{1, 2, 3, 0, 3, 0});
  CHECK(predecessors(plan, 1) == Steps{});
  CHECK(predecessors(plan, 2) == Steps{1});
  CHECK(predecessors(plan, 3) == Steps{});
}

TEST_CASE("a local reduction waits for both operands and for the readers of its destination") {
  PlanBuilder builder{four};
  const Blocks slot = builder.scratch(in(0));
  builder.recv(1, slot);
  builder.send(2, out(1));
  builder.recv(3, out(2));
  builder.reduce(out(1), slot, out(2));
  const Plan plan = std::move(builder).build();
  CHECK(predecessors(plan, 3) == Steps{0, 1, 2});
}

TEST_CASE("a range that runs past the last block travels as two messages, in order") {
  PlanBuilder builder{four};
  builder.send(1, in(3, 3));
  builder.recv_reduce(1, out(1, 3), in(3, 3));
  const Plan plan = std::move(builder).build();
  REQUIRE(plan.steps.size() == 4);
  CHECK(plan.steps[0].left == in(3, 1));
  CHECK(plan.steps[1].left == in(0, 2));
  CHECK(plan.steps[2].dst == out(1, 1));
  CHECK(plan.steps[2].left == in(3, 1));
  CHECK(plan.steps[3].dst == out(2, 2));
  CHECK(plan.steps[3].left == in(0, 2));
}

TEST_CASE("empty ranges and copies onto themselves add nothing") {
  PlanBuilder builder{four};
  builder.send(1, in(0, 0));
  builder.recv(1, out(4, 0));
  builder.copy(out(1, 2), out(1, 2));
  const Plan plan = std::move(builder).build();
  CHECK(plan.steps.empty());
  CHECK(plan.lanes.empty());
  CHECK(plan.successor_begin == std::vector<std::uint32_t>{0});
}

TEST_CASE("messages of one direction of one link keep their order without waiting for completion") {
  PlanBuilder builder{four};
  builder.send(1, in(0));   // 0
  builder.recv(1, out(1));  // 1
  builder.send(2, in(0));   // 2
  builder.send(1, in(2));   // 3
  builder.copy(out(3), in(3));
  builder.recv_reduce(1, out(0));  // 5
  const Plan plan = std::move(builder).build();
  REQUIRE(plan.lanes.size() == 3);
  CHECK(plan.lanes[0].peer == 1);
  CHECK(plan.lanes[0].direction == Direction::out);
  CHECK(plan.lanes[0].first == 0);
  CHECK(plan.lanes[0].count == 2);
  CHECK(plan.lanes[1].direction == Direction::in);
  CHECK(plan.lanes[1].count == 2);
  CHECK(plan.lanes[2].peer == 2);
  CHECK(plan.next_on_lane == Steps{3, 5, no_step, no_step, no_step, no_step});
  CHECK(plan.lane_of[3] == 0);
  CHECK(plan.lane_of[5] == 1);
  CHECK(predecessors(plan, 3) == Steps{});
}

TEST_CASE("the order of a long plan stays linear in its length") {
  const Plan plan = ring_all_reduce({.rank = 17, .ranks = 1500, .pipeline = 2});
  REQUIRE(plan.steps.size() == 4 * 1499 * 2);
  CHECK(plan.successor.size() < 2 * plan.steps.size());
  CHECK(plan.lanes.size() == 2);
}

}  // namespace
}  // namespace tutti::algorithms
