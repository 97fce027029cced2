// What is wrong with one plan by itself.

#include <doctest/doctest.h>

#include <vector>

#include "algorithms/check.h"
#include "tests/algorithms/hand_made.h"

namespace tutti::algorithms::testing {
namespace {

using enum Collective;

TEST_CASE("plans for different shapes do not go together") {
  std::vector<Plan> plans = exchange();
  plans[1].shape.pipeline = 2;
  check_says(all_gather, plans, "rank 1: its plan was built for another shape");
}

TEST_CASE("arrays that do not fit each other are found") {
  std::vector<Plan> plans = exchange();
  SUBCASE("one is too short") {
    plans[1].lane_of.pop_back();
    check_says(all_gather, plans, "rank 1: the arrays of its plan do not fit its 3 steps");
  }
  SUBCASE("a step waits for more than complete before it") {
    ++plans[0].waits_for[1];
    check_says(all_gather, plans, "rank 0 step 1 (recv from 1): waits for 1 steps, but is successor of 0");
  }
  SUBCASE("a successor is no step") {
    for (std::size_t i = 1; i < plans[0].successor_begin.size(); ++i) ++plans[0].successor_begin[i];
    plans[0].successor.insert(plans[0].successor.begin(), 99);
    check_says(all_gather, plans, "rank 0: a successor is not one of its steps");
  }
  SUBCASE("a lane misses its step") {
    plans[0].lanes.pop_back();
    check_says(all_gather, plans, "rank 0 step 1 (recv from 1): is on no lane");
  }
  SUBCASE("a lane counts wrongly") {
    plans[0].lanes[0].count = 2;
    check_says(all_gather, plans, "rank 0: its lane to 1 does not link the steps of that peer");
  }
  SUBCASE("a direction has two lanes") {
    plans[0].lanes.push_back(plans[0].lanes[0]);
    check_says(all_gather, plans, "rank 0: its lane to 1 is there twice");
  }
  SUBCASE("a lane leads nowhere") {
    plans[0].lanes[0].peer = 7;
    check_says(all_gather, plans, "rank 0: its lane to 7 leads nowhere");
  }
  SUBCASE("a local step is linked into a lane") {
    plans[0].next_on_lane[2] = 0;
    check_says(all_gather, plans, "rank 0 step 2 (copy): is local, but has a next step on a lane");
  }
  SUBCASE("a scratch slot stands for no block") {
    plans[0].scratch_like.push_back(2);
    check_says(all_gather, plans, "rank 0: a scratch slot stands for a block that is none");
  }
}

TEST_CASE("a step that cannot be is found") {
  std::vector<Plan> plans = exchange();
  Step& send = plans[0].steps[0];
  Step& recv = plans[0].steps[1];
  Step& copy = plans[0].steps[2];
  SUBCASE("it sends to itself") {
    send.peer = 0;
    check_says(all_gather, plans, "rank 0 step 0 (send to 0): its peer must be another rank below 2");
  }
  SUBCASE("it receives from nobody") {
    recv.peer = 2;
    check_says(all_gather, plans, "rank 0 step 1 (recv from 2): its peer must be another rank below 2");
  }
  SUBCASE("it reduces where data only moves") {
    recv = {Verb::recv_reduce, 1, out(1), out(1), {}};
    check_says(all_gather, plans, "rank 0 step 1 (recv_reduce from 1): reduces, but all_gather only moves data");
  }
  SUBCASE("it reads a part that its rank does not have") {
    send.left = in(1);
    check_says(all_gather, plans, "rank 0 step 0 (send to 1): touches input[1], but this rank has only input[0]");
  }
  SUBCASE("it writes past the last block") {
    recv.dst = out(2);
    check_says(all_gather, plans,
               "rank 0 step 1 (recv from 1): touches output[2], but this rank has only output[0..1]");
  }
  SUBCASE("it uses scratch without asking for some") {
    copy.left = {Buffer::scratch, 0, 1};
    check_says(all_gather, plans, "rank 0 step 2 (copy): touches scratch[0], but this rank has no scratch");
  }
  SUBCASE("it writes input") {
    recv.dst = in(0);
    check_says(all_gather, plans, "rank 0 step 1 (recv from 1): writes input[0], but input is only read");
  }
  SUBCASE("its operands differ in length") {
    copy = {Verb::copy, -1, out(0, 2), in(0), {}};
    check_says(all_gather, plans, "rank 0 step 2 (copy): has operands of 2 and 1 blocks");
  }
  SUBCASE("it does nothing") {
    copy = {Verb::copy, -1, out(0, 0), in(0, 0), {}};
    check_says(all_gather, plans, "rank 0 step 2 (copy): has operands of 0 and 0 blocks");
  }
  SUBCASE("its operands differ in size") {
    copy.dst = out(1);
    check_says(all_gather, plans, "rank 0 step 2 (copy): combines blocks of different sizes: output[1] and input[0]");
  }
}

TEST_CASE("a rank without a buffer must not touch it") {
  const auto plans = plans_of(2, [](PlanBuilder& plan, int rank) {
    if (rank == 1) {
      plan.copy(out(0, 2), in(0, 2));
      plan.send(0, out(0, 2));
    } else {
      plan.recv_reduce(1, out(0, 2), in(0, 2));
    }
  });
  check_says(reduce, plans, "reduce: rank 1 step 0 (copy): touches output[0..1], but this rank has no output");
}

TEST_CASE("a step must not write what it is still reading, but for its left operand") {
  const auto doubling = [](Blocks dst, Blocks left, Blocks right) {
    return plans_of(1, [=](PlanBuilder& plan, int) {
      const Blocks spare = plan.scratch(in(0));
      plan.copy(spare, in(0));
      plan.copy(out(0), in(0));
      plan.reduce(dst, left, right);
    });
  };
  const Blocks spare{Buffer::scratch, 0, 1};
  check_says(all_reduce, doubling(out(0), spare, out(0)), "step 2 (reduce): writes output[0] while it reads output[0]");
  check_says(all_reduce, doubling(out(0), spare, in(0)), "step 2 (reduce): writes output[0] while it reads input[0]");
  check_says(all_reduce, doubling(out(0), out(0), spare), "counts rank 0 twice in output[0]");
}

}  // namespace
}  // namespace tutti::algorithms::testing
