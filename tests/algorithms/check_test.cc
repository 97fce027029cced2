// What is wrong with the plans of all ranks together. (One plan by itself: check_form_test.cc.)

#include "algorithms/check.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "algorithms/plan_assemble.h"
#include "tests/algorithms/hand_made.h"
#include "tests/algorithms/random_order.h"

namespace tutti::algorithms::testing {
namespace {

using enum Collective;

TEST_CASE("a right plan is proved and measured") {
  const Verdict verdict = check(all_gather, exchange());
  check_proves(verdict);
  CHECK(verdict.slots == 1);
  CHECK(verdict.messages == 2);
  CHECK(verdict.busiest_blocks == 1);
  CHECK(verdict.rounds == 1);
  CHECK(verdict.scratch_blocks == 0);
}

TEST_CASE("one rank alone has only to bring its input to its output") {
  check_proves(check(all_reduce, plans_of(1, [](PlanBuilder& plan, int) { plan.copy(out(0), in(0)); })));
  check_proves(check(broadcast, plans_of(1, [](PlanBuilder&, int) {})));
  check_proves(check(barrier, plans_of(1, [](PlanBuilder&, int) {})));
  check_says(all_reduce, plans_of(1, [](PlanBuilder&, int) {}), "all_reduce: rank 0: ends with output[0] empty");
}

TEST_CASE("a scan combines ranks in their order, and no more of them than each result takes") {
  const auto row_of_two = [](bool right_order, bool too_much) {
    return plans_of(2, [=](PlanBuilder& plan, int rank) {
      if (rank == 0) {
        plan.send(1, in(0, 2));
        too_much ? plan.recv_reduce(1, out(0, 2), in(0, 2)) : plan.copy(out(0, 2), in(0, 2));
        return;
      }
      if (too_much) plan.send(0, in(0, 2));
      if (!right_order) return plan.recv_reduce(0, out(0, 2), in(0, 2));
      const Blocks sum = plan.scratch(in(0, 2));
      plan.recv(0, sum);
      plan.reduce(sum, sum, in(0, 2));
      plan.copy(out(0, 2), sum);
    });
  };
  check_proves(check(scan, row_of_two(true, false)));
  check_says(scan, row_of_two(false, false), "rank 1 step 0 (recv_reduce from 0): does not fold in rank order");
  check_says(scan, row_of_two(true, true), "rank 0: ends with output[0] with that of rank 1 in it");
  check_says(exclusive_scan, row_of_two(true, false), "touches output[0..1], but this rank has no output");
}

TEST_CASE("no plans are a problem, not a proof") { check_says(all_reduce, {}, "there are no plans"); }

TEST_CASE("messages must pair up") {
  SUBCASE("a send without a receive") {
    check_says(all_gather,
               plans_of(2,
                        [](PlanBuilder& plan, int rank) {
                          plan.send(1 - rank, in(rank));
                          if (rank == 0) plan.recv(1, out(1));
                        }),
               "rank 0 step 0 (send to 1): sends a message that rank 1 never receives");
  }
  SUBCASE("a receive without a send") {
    check_says(all_gather,
               plans_of(2,
                        [](PlanBuilder& plan, int rank) {
                          if (rank == 0) plan.recv(1, out(1));
                        }),
               "rank 0 step 0 (recv from 1): waits for a message that rank 1 never sends");
  }
  const auto two_blocks_to = [](Blocks where) {
    return plans_of(2, [where](PlanBuilder& plan, int rank) {
      if (rank == 0) plan.send(1, out(0, 2));
      if (rank == 1) plan.recv(0, where);
    });
  };
  check_proves(check(broadcast, two_blocks_to(out(0, 2))));
  SUBCASE("different lengths") {
    check_says(broadcast, two_blocks_to(out(0)),
               "rank 0 step 0 (send to 1): sends 2 blocks and meets rank 1 step 0 "
               "(recv from 0), which expects 1");
  }
  SUBCASE("different sizes") {
    check_says(broadcast, two_blocks_to(out(1, 2)), "sends 2 blocks and");
    check_says(broadcast,
               plans_of(2,
                        [](PlanBuilder& plan, int rank) {
                          if (rank == 0) plan.send(1, out(0));
                          if (rank == 1) plan.recv(0, out(1));
                        }),
               "rank 0 step 0 (send to 1): sends output[0] and meets rank 1 step 0 (recv from 0), which expects "
               "output[1], a block of another size");
  }
}

TEST_CASE("parts of an all_to_all differ in size unless the algorithm says that it needs them equal") {
  const auto plans = plans_of(
      2,
      [](PlanBuilder& plan, int rank) {
        const Blocks staged = plan.scratch(in(rank));  // should be like the part for the other rank
        plan.copy(staged, in(1 - rank));
        plan.send(1 - rank, staged);
        plan.recv(1 - rank, out(1 - rank));
        plan.copy(out(rank), in(rank));
      },
      InPlace::never);
  check_says(all_to_all, plans, "rank 0 step 0 (copy): combines blocks of different sizes: scratch[0] and input[1]");
  check_proves(check(all_to_all, plans, {.equal_parts = true}));
}

TEST_CASE("plans that need links with room for whole messages are told from others") {
  std::vector<Plan> plans = exchange();
  CHECK_FALSE(check(all_gather, plans).needs_room);
  for (Plan& plan : plans) plan = assemble(plan.shape, plan.steps, {{0, 1}, {0, 2}}, {});
  const Verdict both_send_first = check(all_gather, plans);
  check_proves(both_send_first);
  CHECK(both_send_first.slots == 1);
  CHECK(both_send_first.needs_room);
}

TEST_CASE("a deadlock is found, within a rank and between ranks") {
  SUBCASE("both receive first") {
    std::vector<Plan> plans = plans_of(2, [](PlanBuilder& plan, int rank) {
      plan.recv(1 - rank, plan.scratch(in(rank)));
      plan.send(1 - rank, {Buffer::scratch, 0, 1});
    });
    check_says(barrier, plans,
               "barrier: rank 1 step 0 (recv from 0): deadlock: waits forever for rank 0 step 1 "
               "(send to 1), which waits for step 0 (recv from 1)");
  }
  SUBCASE("a step waits for itself") {
    std::vector<Plan> plans = exchange();
    Plan& plan = plans[0];
    plan.successor.push_back(2);
    ++plan.successor_begin[3];
    ++plan.waits_for[2];
    check_says(all_gather, plans, "rank 0 step 2 (copy): deadlock: never runs, it waits for step 2 (copy)");
  }
}

TEST_CASE("the slots that a link needs are counted") {
  // Rank 1 takes the first message of rank 0 only after one from rank 2, which rank 0 lets go only after its second.
  const std::vector<Plan> plans = plans_of(3, [](PlanBuilder& plan, int rank) {
    const Blocks token = plan.scratch(in(rank));
    if (rank == 0) {
      plan.send(1, in(0));
      plan.copy(token, in(0));
      plan.send(1, token);
      plan.copy(token, in(0));
      plan.send(2, token);
      plan.recv(1, token);
    } else if (rank == 2) {
      plan.recv(0, token);
      plan.send(1, token);
      plan.recv(1, token);
    } else {
      for (const int from : {2, 0, 0}) plan.recv(from, token);
      for (const int to : {0, 2}) plan.send(to, token);
    }
  });
  const Verdict verdict = check(barrier, plans);
  check_proves(verdict);
  CHECK(verdict.slots == 2);
  CHECK(run_in_random_order({.collective = barrier, .slots = 2}, plans, 1) == "");
  CHECK(run_in_random_order({.collective = barrier, .slots = 1}, plans, 1) == "the plans do not come to an end");
  CHECK(verdict.rounds == 3);
}

TEST_CASE("rounds are the messages on the longest way, whichever comes last") {
  // Ranks 0 to 3 in a row; rank 3 also hears from rank 0 at once, and tells all.
  const auto row = [](bool long_way_last) {
    return plans_of(4, [long_way_last](PlanBuilder& plan, int rank) {
      const Blocks token = plan.scratch(in(rank));
      const Blocks other = plan.scratch(in(rank));
      if (rank == 0) plan.send(3, in(0));
      if (rank == 0) plan.send(1, in(0));
      if (rank == 1 || rank == 2) plan.recv(rank - 1, token);
      if (rank == 1 || rank == 2) plan.send(rank + 1, token);
      if (rank < 3) return plan.recv(3, token);
      plan.recv(long_way_last ? 0 : 2, token);
      plan.recv(long_way_last ? 2 : 0, other);
      plan.reduce(token, token, other);
      for (const int to : {0, 1, 2}) plan.send(to, token);
    });
  };
  for (const bool long_way_last : {false, true}) {
    const Verdict verdict = check(barrier, row(long_way_last));
    check_proves(verdict);
    CHECK(verdict.rounds == 4);
    CHECK(verdict.messages == 7);
    CHECK(verdict.scratch_blocks == 2);
    CHECK(verdict.busiest_blocks == 3);
  }
}

TEST_CASE("a race is found where a step does not wait for another") {
  // Rank 1 overwrites what it sends; in `output` it makes the sum first.
  std::vector<Plan> plans = plans_of(2, [](PlanBuilder& plan, int rank) {
    if (rank == 0) {
      plan.recv_reduce(1, out(0, 2), in(0, 2));
      plan.send(1, out(0, 2));
    } else {
      plan.copy(out(0, 2), in(0, 2));
      plan.send(0, out(0, 2));
      plan.recv(0, out(0, 2));
    }
  });
  check_proves(check(all_reduce, plans));
  SUBCASE("write after read") {
    drop_wait(plans[1], 1, 2);
    check_says(all_reduce, plans, "rank 1 step 2 (recv from 0): races with step 1 (send to 0) for output[0]");
  }
  SUBCASE("read after write") {
    drop_wait(plans[0], 0, 1);
    check_says(all_reduce, plans, "rank 0 step 0 (recv_reduce from 1): races with step 1 (send to 1) for output[0]");
  }
}

TEST_CASE("receives from one peer into one place race, though the link keeps their order") {
  std::vector<Plan> plans = plans_of(2, [](PlanBuilder& plan, int rank) {
    for (int twice = 0; twice < 2; ++twice) rank == 0 ? plan.send(1, out(0, 2)) : plan.recv(0, out(0, 2));
  });
  check_proves(check(broadcast, plans));
  drop_wait(plans[1], 0, 1);
  check_says(broadcast, plans, "rank 1 step 1 (recv from 0): races with step 0 (recv from 0) for output[0]");
}

TEST_CASE("an order that follows from others need not be written down") {
  std::vector<Plan> plans = plans_of(1, [](PlanBuilder& plan, int) {
    const Blocks a = plan.scratch(in(0));
    const Blocks b = plan.scratch(in(0));
    const Blocks c = plan.scratch(in(0));
    plan.copy(a, in(0));
    plan.copy(b, a);
    plan.reduce(c, a, b);
  });
  drop_wait(plans[0], 0, 2);
  check_proves(check(barrier, plans));
  drop_wait(plans[0], 1, 2);
  check_says(barrier, plans, "races with step");
}

TEST_CASE("input and output count as one place where they may be one") {
  const Script script = [](PlanBuilder& plan, int rank) {
    plan.recv(1 - rank, out(1 - rank));
    plan.copy(out(rank), in(rank));
    plan.send(1 - rank, in(1 - rank));
  };
  check_proves(check(all_to_all, plans_of(2, script, InPlace::never)));
  const Script halves = [](PlanBuilder& plan, int rank) {  // rank r finishes block r and sends it back
    const int other = 1 - rank;
    plan.send(other, in(other));
    plan.recv_reduce(other, out(rank), in(rank));
    plan.send(other, out(rank));
    plan.recv(other, out(other));
  };
  check_proves(check(all_reduce, plans_of(2, halves)));
  check_says(all_reduce, plans_of(2, halves, InPlace::never), "step 3 (recv from 1): races with step 0 (send to 1)");
}

TEST_CASE("every contribution must arrive, and only once") {
  // Rank 0 collects `from` those ranks in turn, out of place or through its output.
  const auto collect = [](std::vector<int> from, bool in_output_twice) {
    return plans_of(3, [=](PlanBuilder& plan, int rank) {
      if (rank != 0) {
        for (const int sender : from)
          if (sender == rank) plan.send(0, in(0, 3));
        return;
      }
      Blocks sum = in(0, 3);
      for (const int sender : from) {
        plan.recv_reduce(sender, out(0, 3), in_output_twice ? in(0, 3) : sum);
        sum = out(0, 3);
      }
    });
  };
  check_proves(check(reduce, collect({1, 2}, false)));
  check_says(reduce, collect({1}, false), "reduce: rank 0: ends with output[0] lacking rank 2");
  check_says(reduce, collect({1, 2, 1}, false), "rank 0 step 2 (recv_reduce from 1): counts rank 1 twice in output[0]");
  SUBCASE("also where only in place all would be well") {
    const Verdict verdict = check(reduce, collect({1, 2}, true));
    check_says(verdict, "rank 0: ends with output[0] lacking rank 1");
    CHECK(problems(verdict).find("(in place)") == std::string::npos);
  }
  SUBCASE("also where only out of place all would be well") {
    const Verdict verdict = check(all_reduce, plans_of(2, [](PlanBuilder& plan, int rank) {
                                    const Blocks theirs = plan.scratch(in(0, 2));
                                    plan.send(1 - rank, in(0, 2));
                                    plan.recv(1 - rank, theirs);
                                    plan.copy(out(0, 2), theirs);
                                    plan.copy(theirs, in(0, 2));  // in place, that is the copy just made
                                    plan.reduce(out(0, 2), out(0, 2), theirs);
                                  }));
    check_says(verdict, "rank 0 step 4 (reduce): counts rank 1 twice in output[0] (in place)");
    CHECK(std::all_of(verdict.problems.begin(), verdict.problems.end(),
                      [](const std::string& text) { return text.find("(in place)") != std::string::npos; }));
  }
}

TEST_CASE("a wrong message at a block is a problem") {
  SUBCASE("the wrong block, by way of scratch of the right size") {
    check_says(all_to_all,
               plans_of(
                   2,
                   [](PlanBuilder& plan, int rank) {
                     plan.send(1 - rank, in(rank));
                     plan.recv(1 - rank, out(1 - rank));
                     plan.copy(out(rank), in(rank));
                   },
                   InPlace::never),
               "which expects output[1], a block of another size");
  }
  SUBCASE("the wrong block of equal size") {
    const auto plans = plans_of(
        2,
        [](PlanBuilder& plan, int rank) {
          plan.send(1 - rank, in(rank));
          plan.recv(1 - rank, out(1 - rank));
          plan.copy(out(rank), in(rank));
        },
        InPlace::never);
    check_says(check(all_to_all, plans, {.equal_parts = true}),
               "rank 0: ends with output[1] holding block 1 of rank 1 instead of block 0 of rank 1");
  }
  SUBCASE("nothing at all") {
    check_says(all_gather,
               plans_of(2,
                        [](PlanBuilder& plan, int rank) {
                          plan.send(1 - rank, in(rank));
                          plan.recv(1 - rank, out(1 - rank));
                        }),
               "rank 0: ends with output[0] empty");
  }
  SUBCASE("what was never there") {
    check_says(broadcast,
               plans_of(2,
                        [](PlanBuilder& plan, int rank) {
                          if (rank == 1) plan.send(0, out(0, 2));
                          if (rank == 0) plan.recv(1, out(0, 2));
                        }),
               "rank 1 step 0 (send to 0): reads output[0], which was never written");
  }
}

TEST_CASE("the tokens of a barrier are all alike, the blocks of a reduction are not") {
  const auto plans = plans_of(2, [](PlanBuilder& plan, int rank) {
    const Blocks sum = plan.scratch(in(rank));
    plan.send(1 - rank, in(rank));
    plan.recv_reduce(1 - rank, sum, in(rank));
  });
  check_proves(check(barrier, plans));
  check_says(all_reduce, plans,
             "sends input[0] and meets rank 1 step 1 (recv_reduce from 0), which expects scratch[0]");
}

TEST_CASE("an algorithm that claims the order of ranks must keep it") {
  const auto fold = [](bool backwards) {
    return plans_of(3, [backwards](PlanBuilder& plan, int rank) {
      if (rank != 0) return plan.send(0, in(0, 3));
      plan.recv_reduce(backwards ? 2 : 1, out(0, 3), in(0, 3));
      plan.recv_reduce(backwards ? 1 : 2, out(0, 3));
    });
  };
  check_proves(check(reduce, fold(false), {.rank_order = true}));
  check_proves(check(reduce, fold(true)));
  check_says(check(reduce, fold(true), {.rank_order = true}),
             "rank 0 step 0 (recv_reduce from 2): does not fold in rank order: output[0] = (rank 0) op (rank 2)");
}

TEST_CASE("a barrier that lets a rank go too early is found") {
  const auto plans = plans_of(3, [](PlanBuilder& plan, int rank) {
    const Blocks token = plan.scratch(in(rank));
    if (rank == 0) {
      plan.send(1, in(0));
      plan.recv(2, token);
    } else {
      plan.recv(rank - 1, token);
      plan.send((rank + 1) % 3, token);
    }
  });
  check_says(barrier, plans, "barrier: rank 1: may leave before rank 2 has come");
}

TEST_CASE("the list of problems ends when it is long enough") {
  const auto plans = plans_of(64, [](PlanBuilder&, int) {});
  CHECK(check(all_reduce, plans).problems.size() == 20);
}

}  // namespace
}  // namespace tutti::algorithms::testing
