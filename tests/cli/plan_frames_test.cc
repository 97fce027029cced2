// Frames of plans that the catalogue does not have.

#include <doctest/doctest.h>

#include <string>

#include "cli/plan/frames.h"
#include "cli/plan/svg/svg.h"
#include "tests/algorithms/hand_made.h"
#include "tests/support/text.h"

namespace tutti::cli {
namespace {

using algorithms::Blocks;
using algorithms::PlanBuilder;
using algorithms::testing::in;
using algorithms::testing::out;

/// Rank 0 collects what the others have, and adds it up only when all of it is there.
View collected() {
  View view{Collective::reduce, algorithms::find(Collective::reduce, "tree"), {0, 3}, {}, {}};
  view.plans = algorithms::testing::plans_of(3, [](PlanBuilder& plan, int rank) {
    if (rank != 0) return plan.send(0, in(0, 3));
    const Blocks one = plan.scratch(out(0, 3));
    const Blocks two = plan.scratch(out(0, 3));
    plan.recv(1, one);
    plan.recv(2, two);
    plan.reduce(one, one, two);
    plan.reduce(out(0, 3), in(0, 3), one);
  });
  return view;
}

TEST_CASE("contributions that are not yet added up are marked as such") {
  const View view = collected();
  const Replays replays = make_replays(view, {.bytes = 3000});
  REQUIRE_FALSE(replays.empty());
  CHECK(testing::contains(frames_legend(view, replays), "\"+\""));
  CHECK(frame(view, replays, 1) == "\nStep 1 of 2: 1>0 [0-2]\n     0-2\n  0 +01.\n  1  .1.\n  2  ..2\n");
  CHECK(frame(view, replays, 2) == "\nStep 2 of 2: 2>0 [0-2]\n     0-2\n  0 >012\n  1  .1.\n  2  ..2\n");
  CHECK(testing::contains(to_svg(view, replays, {}), "class=\"apart\""));
}

TEST_CASE("wrong plans are not run") {
  View view = collected();
  view.verdict.problems.push_back("wrong");
  CHECK(make_replays(view, {}).empty());
}

TEST_CASE("the time of two messages to one rank") {
  const Replays replays = make_replays(collected(), {.bytes = 3000, .latency_us = 2, .gigabytes_per_s = 2});
  CHECK(replays.time.end == 2 * (2'000'000 + 1'500'000));
}

}  // namespace
}  // namespace tutti::cli
