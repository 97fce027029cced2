// Replays: their last frame against what the collective promises, their times against closed forms.

#include "algorithms/replay.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <numeric>
#include <string>

#include "algorithms/bounds.h"
#include "algorithms/catalogue.h"
#include "tests/algorithms/entries.h"
#include "tests/algorithms/hand_made.h"
#include "tests/support/sample.h"

namespace tutti::algorithms::testing {
namespace {

using enum Collective;

Replay run(const Entry& entry, int ranks, int root = 0, int pipeline = 1, const Cost& cost = {}) {
  return replay(entry.collective, build_all(entry, {0, ranks, root, pipeline}), claims_of(entry), cost);
}

Replay run(Collective collective, const char* name, int ranks, int pipeline = 1, const Cost& cost = {}) {
  return run(*find(collective, name).entry, ranks, 0, pipeline, cost);
}

/// Whose contributions to a block a rank has in the end; empty: nothing is promised.
std::vector<int> promised(Collective collective, int ranks, int root, int rank, int part) {
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  switch (collective) {
    case all_reduce:
    case barrier:
      return all;
    case scan:
      all.resize(static_cast<std::size_t>(rank) + 1);
      return all;
    case exclusive_scan:
      all.resize(static_cast<std::size_t>(rank));
      return all;
    case reduce:
      return rank == root ? all : std::vector<int>{};
    case broadcast:
      return {root};
    case all_gather:
      return {part};
    case reduce_scatter:
    case all_to_all:
      return rank == part ? all : std::vector<int>{};
    case scatter:
      return rank == part ? std::vector<int>{root} : std::vector<int>{};
    case gather:
      return rank == root ? std::vector<int>{part} : std::vector<int>{};
  }
  return {};
}

void check_last_frame(const Entry& entry, int ranks, int root, int pipeline) {
  const Replay done = run(entry, ranks, root, pipeline);
  const std::string what = std::string(name_of(entry.collective)) + " " + std::string(entry.name) + " ranks " +
                           std::to_string(ranks) + " root " + std::to_string(root);
  REQUIRE_MESSAGE(done.problems.empty(), what);
  const std::vector<ReplayFrame> all = frames(done);
  REQUIRE_MESSAGE(all.back().at == done.end, what);
  for (int rank = 0; rank < ranks; ++rank)
    for (int block = 0; block < done.blocks; ++block) {
      const std::vector<int> expected = promised(entry.collective, ranks, root, rank, block / pipeline);
      if (expected.empty()) continue;
      const Held& held = all.back().held[done.cell(rank, block)];
      CHECK_MESSAGE(done.sets[held.largest] == expected, what, ", rank ", rank, " block ", block);
    }
}

TEST_CASE("the last frame holds what the collective promises") {
  tutti::testing::Lot lot{1, 6};
  for (const Entry& entry : catalogue())
    for (int ranks = 1; ranks <= 16; ++ranks)
      for (const int root : {0, ranks - 1})
        for (const int pipeline : {1, entry.has_pipeline ? 3 : 1})
          if (ranks <= 4 || lot.draws()) check_last_frame(entry, ranks, root, pipeline);
}

TEST_CASE("the first frame holds what each rank brings") {
  const Replay ring = run(all_reduce, "ring", 4);
  for (int rank = 0; rank < 4; ++rank)
    for (int block = 0; block < 4; ++block)
      CHECK(ring.sets[frames(ring).front().held[ring.cell(rank, block)].all] == std::vector<int>{rank});
  const Replay scattered = run(*find(scatter, "direct").entry, 3, 1);
  CHECK(scattered.sets[scattered.start[scattered.cell(1, 2)].all] == std::vector<int>{1});
  CHECK(scattered.start[scattered.cell(0, 0)].all == 0);
}

TEST_CASE("one frame per step, in the ring the parts as they travel") {
  const Replay ring = run(all_reduce, "ring", 4);
  const std::vector<ReplayFrame> all = frames(ring);
  REQUIRE(all.size() == 7);
  for (std::size_t step = 0; step < all.size(); ++step) {
    CHECK(all[step].at == static_cast<Ticks>(step));
    CHECK(all[step].messages.size() == (step == 0 ? 0 : 4));
  }
  CHECK(ring.messages[0].blocks == std::vector<int>{3});
  CHECK(ring.sets[all[1].held[ring.cell(1, 3)].all] == std::vector<int>{0, 1});
  CHECK(ring.sets[all[3].held[ring.cell(3, 3)].all] == std::vector<int>{0, 1, 2, 3});
}

TEST_CASE("a message carries the blocks that its sender got, under whatever name") {
  const Replay bruck = run(all_to_all, "bruck", 5);
  for (const ReplayMessage& message : bruck.messages)
    for (const int block : message.blocks) CHECK(block != message.from);
  CHECK(run(all_gather, "bruck", 4).messages.back().blocks.size() == 2);
  CHECK(run(barrier, "tree", 4).messages.back().blocks.empty());
}

TEST_CASE("no rank sends two messages at once, or receives two") {
  for (const Entry& entry : catalogue()) {
    const Replay done = run(entry, 7, 2, 1, {3, 2, 1});
    std::map<int, Ticks> out;
    for (const ReplayMessage& message : done.messages) {
      CHECK(message.begin >= out[message.from]);
      CHECK(message.end == message.begin + 3 + 2 * message.sent.count);
      CHECK(message.done >= message.end);
      out[message.from] = message.end;
    }
    std::vector<ReplayMessage> arriving = done.messages;
    std::sort(arriving.begin(), arriving.end(),
              [](const ReplayMessage& a, const ReplayMessage& b) { return a.end < b.end; });
    std::map<int, Ticks> in;
    for (const ReplayMessage& message : arriving) {
      CHECK(message.begin >= in[message.to]);
      in[message.to] = message.end;
    }
  }
}

TEST_CASE("times agree with closed forms") {
  const Cost cost{100, 7, 3};
  for (int n = 2; n <= 16; ++n) {
    CHECK(run(all_reduce, "ring", n, 1, cost).end == 2 * (n - 1) * (100 + 7) + (n - 1) * 3);
    CHECK(run(all_gather, "ring", n, 1, cost).end == (n - 1) * 107);
    CHECK(run(broadcast, "direct", n, 1, cost).end == (n - 1) * (100 + 7 * n));
    CHECK(run(broadcast, "tree", n).end == lower_bounds(broadcast, n).steps);
    CHECK(run(barrier, "dissemination", n).end == lower_bounds(barrier, n).steps);
    // A chain of n ranks with p slices of n blocks: the last slice leaves after p - 1 others and makes n - 1 hops.
    for (const int p : {1, 2, 5}) CHECK(run(broadcast, "chain", n, p, cost).end == (n - 2 + p) * (100 + 7 * n));
  }
}

TEST_CASE("lower bounds") {
  CHECK(lower_bounds(barrier, 8).steps == 3);
  CHECK(lower_bounds(barrier, 9).steps == 4);
  CHECK(lower_bounds(all_reduce, 1).steps == 0);
  CHECK(lower_bounds(all_reduce, 4).sent == doctest::Approx(1.5));
  CHECK(lower_bounds(gather, 4).sent == doctest::Approx(0.25));
  CHECK(lower_bounds(gather, 4).received == doctest::Approx(0.75));
  CHECK(lower_bounds(reduce_scatter, 5).reduced == doctest::Approx(0.8));
  CHECK(lower_bounds(scan, 5).sent == 1);
  CHECK(lower_bounds(scan, 5).reduced == doctest::Approx(0.8));
  CHECK(lower_bounds(exclusive_scan, 5).reduced == doctest::Approx(0.6));
}

TEST_CASE("nothing takes fewer steps or moves less than the bounds say") {
  for (const Entry& entry : catalogue())
    for (int ranks = 2; ranks <= 16; ++ranks) {
      const Replay done = run(entry, ranks);
      const Bounds bounds = lower_bounds(entry.collective, ranks);
      CHECK(done.end >= bounds.steps);
      std::vector<int> sent(static_cast<std::size_t>(ranks)), received(static_cast<std::size_t>(ranks));
      for (const ReplayMessage& message : done.messages) {
        sent[static_cast<std::size_t>(message.from)] += message.sent.count;
        received[static_cast<std::size_t>(message.to)] += message.sent.count;
      }
      CHECK(*std::max_element(sent.begin(), sent.end()) >= bounds.sent * ranks - 1e-9);
      CHECK(*std::max_element(received.begin(), received.end()) >= bounds.received * ranks - 1e-9);
    }
}

TEST_CASE("contributions that lie beside each other are told from those that are added up") {
  // Rank 0 gets what the others have, adds it up only when all of it is there.
  const std::vector<Plan> plans = plans_of(3, [](PlanBuilder& plan, int rank) {
    if (rank != 0) return plan.send(0, in(0, 3));
    const Blocks one = plan.scratch(out(0, 3));
    const Blocks two = plan.scratch(out(0, 3));
    plan.recv(1, one);
    plan.recv(2, two);
    plan.reduce(one, one, two);
    plan.reduce(out(0, 3), in(0, 3), one);
  });
  const Replay done = replay(reduce, plans, {}, {});
  REQUIRE(done.problems.empty());
  const std::vector<ReplayFrame> all = frames(done);
  REQUIRE(all.size() == 3);
  CHECK(done.sets[all[1].held[0].all] == std::vector<int>{0, 1});
  CHECK(done.sets[all[1].held[0].largest].size() == 1);
  CHECK(done.sets[all[2].held[0].largest] == std::vector<int>{0, 1, 2});
}

TEST_CASE("wrong plans are refused with the checker's words") {
  std::vector<Plan> plans = exchange();
  plans[1].steps[0].left = in(0);
  const Replay done = replay(all_gather, plans, {}, {});
  REQUIRE_FALSE(done.problems.empty());
  CHECK(done.messages.empty());
}

TEST_CASE("the same plans take the same course") {
  for (const Entry& entry : catalogue()) {
    const Replay one = run(entry, 9, 4, 1, {5, 1, 1});
    const Replay two = run(entry, 9, 4, 1, {5, 1, 1});
    REQUIRE(one.messages.size() == two.messages.size());
    for (std::size_t i = 0; i < one.messages.size(); ++i)
      CHECK((one.messages[i].begin == two.messages[i].begin && one.messages[i].from == two.messages[i].from &&
             one.messages[i].recv == two.messages[i].recv));
  }
}

}  // namespace
}  // namespace tutti::algorithms::testing
