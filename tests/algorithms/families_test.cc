// What the files of the families say of their shapes and costs.

#include "algorithms/families.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/catalogue.h"
#include "algorithms/check.h"
#include "algorithms/circulant.h"
#include "algorithms/double_binary_tree.h"
#include "algorithms/tree.h"
#include "tests/algorithms/lockstep.h"
#include "tutti/types.h"

namespace tutti::algorithms {
namespace {

int log_up(int value, int base = 2) {
  int steps = 0;
  for (long reach = 1; reach < value; reach *= base) ++steps;
  return steps;
}

TEST_CASE("in a k-nomial tree children cover the range of their parent without gap or overlap") {
  for (const int radix : {2, 3, 4, 5, 8, 300})
    for (int ranks = 1; ranks <= 130; ++ranks) {
      CAPTURE(radix);
      CAPTURE(ranks);
      const KnomialTree tree{ranks, radix};
      REQUIRE(tree.size(0) == ranks);
      for (int v = 0; v < ranks; ++v) {
        std::vector<int> children = tree.children(v);
        REQUIRE(std::is_sorted(children.rbegin(), children.rend(),
                               [&](int a, int b) { return tree.size(a) < tree.size(b); }));
        std::sort(children.begin(), children.end());
        int next = v + 1;
        for (const int child : children) {
          REQUIRE(child == next);
          REQUIRE(tree.parent(child) == v);
          next += tree.size(child);
        }
        REQUIRE(next == v + tree.size(v));
      }
    }
}

TEST_CASE("in a k-nomial tree no rank is deeper than the logarithm") {
  for (const int radix : {2, 3, 7})
    for (const int ranks : {1, 2, 3, 8, 9, 27, 28, 64, 255, 300}) {
      int deepest = 0;
      for (int v = 0; v < ranks; ++v) {
        int depth = 0;
        for (int up = v; up > 0; up = KnomialTree{ranks, radix}.parent(up)) ++depth;
        deepest = std::max(deepest, depth);
      }
      CHECK(deepest <= log_up(ranks, radix));
    }
}

using Tree = Branch (*)(int rank, int ranks);

std::vector<int> parents(Tree tree, int ranks) {
  std::vector<int> found;
  for (int rank = 0; rank < ranks; ++rank) found.push_back(tree(rank, ranks).parent);
  return found;
}

TEST_CASE("the two trees are those of the literature") {
  CHECK(parents(first_tree, 6) == std::vector{-1, 2, 4, 2, 0, 4});
  CHECK(parents(second_tree, 6) == std::vector{1, 5, 3, 1, 3, -1});
  CHECK(parents(first_tree, 5) == std::vector{-1, 2, 4, 2, 0});
  CHECK(parents(second_tree, 5) == std::vector{1, -1, 3, 0, 3});
}

TEST_CASE("each of the two trees spans all ranks, no deeper than the logarithm, and parents know their children") {
  for (int ranks = 1; ranks < 700; ++ranks)
    for (const Tree tree : {first_tree, second_tree}) {
      CAPTURE(ranks);
      int deepest = 0;
      int tops = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Branch branch = tree(rank, ranks);
        for (const int child : {branch.left, branch.right}) {
          const bool agreed = child < 0 || tree(child, ranks).parent == rank;
          REQUIRE(agreed);
        }
        if (branch.parent < 0) {
          ++tops;
        } else {
          const Branch above = tree(branch.parent, ranks);
          const bool known = above.left == rank || above.right == rank;
          REQUIRE(known);
        }
        int depth = 0;
        for (int up = rank; tree(up, ranks).parent >= 0 && depth <= ranks; up = tree(up, ranks).parent) ++depth;
        deepest = std::max(deepest, depth);
      }
      REQUIRE(tops == 1);
      REQUIRE(deepest <= log_up(ranks));
      REQUIRE(second_tree(top_of_second_tree(ranks), ranks).parent == -1);
    }
}

TEST_CASE("a rank with children in one of the two trees is a leaf of the other") {
  for (int ranks = 2; ranks < 700; ++ranks)
    for (int rank = 0; rank < ranks; ++rank) {
      const auto children = [](const Branch& branch) { return int{branch.left >= 0} + int{branch.right >= 0}; };
      const int first = children(first_tree(rank, ranks));
      const int second = children(second_tree(rank, ranks));
      CAPTURE(ranks);
      CAPTURE(rank);
      REQUIRE(first + second <= 2);
      const bool inner_twice = first > 0 && second > 0;
      const bool exception = ranks % 2 == 1 && ranks > 1 && rank == 0;
      REQUIRE(inner_twice == exception);
    }
}

TEST_CASE("circulant halving moves all parts but one in the fewest rounds, at most two messages each") {
  for (int ranks = 1; ranks <= 140; ++ranks) {
    CAPTURE(ranks);
    int moved = 0;
    for (const Halving& round : halvings(ranks)) moved += round.moved();
    REQUIRE(moved == ranks - 1);
    REQUIRE(static_cast<int>(halvings(ranks).size()) == log_up(ranks));
    const Plan plan = circulant_reduce_scatter({.rank = ranks / 3, .ranks = ranks});
    int sent = 0, reduced = 0, messages = 0;
    for (const Step& step : plan.steps) {
      if (step.verb == Verb::send) sent += step.left.count, ++messages;
      if (step.verb == Verb::recv_reduce) reduced += step.dst.count;
    }
    REQUIRE(sent == ranks - 1);
    REQUIRE(reduced == ranks - 1);
    REQUIRE(messages <= 2 * log_up(ranks));
  }
}

/// What a family's file says it costs, of `n` ranks and a pipeline of 1: steps in a row, blocks that the busiest rank
/// sends (of n in the vector), most scratch blocks at one rank.
struct StatedCost {
  Collective collective;
  const char* name;
  std::function<int(int n)> steps;
  std::function<int(int n)> sent;
  std::function<int(int n)> scratch;
};

int none(int) { return 0; }
int one(int n) { return n > 1 ? 1 : 0; }
int all_but_one(int n) { return n - 1; }
int two_trips(int n) { return 2 * (n - 1); }
int vector_or_none(int n) { return n > 1 ? n : 0; }
int rounds(int n) { return log_up(n); }
/// The largest below the root of a binomial tree, if it has inner ranks at all.
int subtree(int n) {
  const int half = static_cast<int>(std::bit_ceil(static_cast<unsigned>(n))) / 2;
  const int largest = std::max(std::min(half, n - half), half / 2);
  return largest > 1 ? largest : 0;
}

const std::vector<StatedCost> costs{
    {Collective::all_reduce, "ring", two_trips, two_trips, none},
    {Collective::all_gather, "ring", all_but_one, all_but_one, none},
    {Collective::reduce_scatter, "ring", all_but_one, all_but_one, [](int n) { return std::max(n - 2, 0); }},
    {Collective::all_reduce, "circulant", [](int n) { return 2 * log_up(n); }, two_trips, none},
    {Collective::all_gather, "circulant", rounds, all_but_one, none},
    {Collective::reduce_scatter, "circulant", rounds, all_but_one, [](int n) { return n > 2 ? (n + 1) / 2 : 0; }},
    {Collective::all_reduce, "chain", two_trips, [](int n) { return n > 2 ? 2 * n : vector_or_none(n); }, none},
    {Collective::broadcast, "chain", all_but_one, vector_or_none, none},
    {Collective::reduce, "chain", all_but_one, vector_or_none, [](int n) { return n > 2 ? n : 0; }},
    {Collective::all_reduce, "direct", one, [](int n) { return n * (n - 1); }, vector_or_none},
    {Collective::all_reduce, "direct_two_shot", [](int n) { return 2 * one(n); }, two_trips, one},
    {Collective::reduce_scatter, "direct", one, all_but_one, one},
    {Collective::all_gather, "direct", one, all_but_one, none},
    {Collective::all_to_all, "direct", one, all_but_one, none},
    {Collective::all_to_all, "pairwise", one, all_but_one, none},
    {Collective::all_gather, "bruck", rounds, all_but_one, [](int n) { return n; }},
    {Collective::all_gather, "hierarchical", [](int n) { return n > 1 ? log_up((n + 1) / 2) + 2 : 0; },
     [](int n) { return n > 1 ? 2 * n - 2 + n % 2 : 0; }, none},
    {Collective::reduce_scatter, "hierarchical", [](int n) { return n > 2 ? 3 : 2 * one(n); }, vector_or_none,
     vector_or_none},
    {Collective::broadcast, "tree", rounds, [](int n) { return n * log_up(n); }, none},
    {Collective::scatter, "tree", rounds, all_but_one, subtree},
    {Collective::barrier, "dissemination", rounds, rounds, rounds},
};

TEST_CASE("an algorithm costs what its file says") {
  for (const StatedCost& cost : costs)
    for (int ranks = 1; ranks <= 34; ++ranks) {
      CAPTURE(std::string{cost.name});
      CAPTURE(std::string{name_of(cost.collective)});
      CAPTURE(ranks);
      const Verdict verdict = check(*find(cost.collective, cost.name).entry, ranks);
      REQUIRE(verdict.ok());
      REQUIRE(verdict.rounds <= cost.steps(ranks));
      // A round of an odd number may send nothing that has just arrived, and so be no step of its own.
      if (std::has_single_bit(static_cast<unsigned>(ranks))) REQUIRE(verdict.rounds == cost.steps(ranks));
      REQUIRE(verdict.busiest_blocks == static_cast<std::size_t>(cost.sent(ranks)));
      REQUIRE(verdict.scratch_blocks == static_cast<std::size_t>(cost.scratch(ranks)));
    }
}

int beats(Collective collective, const char* name, int ranks) {
  const Choice choice = find(collective, name);
  std::vector<Plan> plans;
  for (int rank = 0; rank < ranks; ++rank)
    plans.push_back(choice.entry->build({.rank = rank, .ranks = ranks, .pipeline = choice.pipeline}));
  const testing::Lockstep run{plans};
  CHECK(run.steps_left() == 0);
  return run.beats();
}

TEST_CASE("slices follow each other without a gap") {
  for (int ranks = 2; ranks <= 17; ++ranks) {
    CAPTURE(ranks);
    const int h = log_up(ranks);
    CHECK(beats(Collective::broadcast, "chain*20", ranks) == ranks - 1 + 19);
    CHECK(beats(Collective::reduce, "chain*20", ranks) == ranks - 1 + 19);
    CHECK(beats(Collective::all_reduce, "chain*20", ranks) == 2 * (ranks - 1) + 19);
    CHECK(beats(Collective::broadcast, "tree*20", ranks) <= h + 19);
    CHECK(beats(Collective::reduce, "tree*20", ranks) <= 2 * h + 19);
    CHECK(beats(Collective::all_reduce, "ring*20", ranks) == 2 * (ranks - 1) * 20);
    // Both trees may use a link, so that it carries two halves of each slice.
    CHECK(beats(Collective::broadcast, "double_binary_tree*20", ranks) <= h + 2 * 20);
    CHECK(beats(Collective::reduce, "double_binary_tree*20", ranks) <= 2 * h + 2 * 20);
    CHECK(beats(Collective::all_reduce, "double_binary_tree*20", ranks) <= 2 * h + 2 * 20);
  }
}

/// Runs plans in place on numbers that tell in which order they were combined. Returns each rank's vector.
std::vector<std::vector<std::uint64_t>> combined(const std::vector<Plan>& plans) {
  using Values = std::vector<std::uint64_t>;
  const auto combine = [](std::uint64_t left, std::uint64_t right) {
    return (left * 0x9E3779B97F4A7C15u ^ (left >> 29)) + right * 0xC2B2AE3D27D4EB4Fu;
  };
  std::map<std::pair<int, int>, std::deque<Values>> wires;
  std::vector<Values> vectors, scratches;
  for (const Plan& plan : plans) {
    vectors.emplace_back(static_cast<std::size_t>(plan.shape.ranks * plan.shape.pipeline),
                         static_cast<std::uint64_t>(plan.shape.rank + 1));
    scratches.emplace_back(plan.scratch_like.size());
  }
  std::vector<std::size_t> next(plans.size(), 0);
  const auto step_of = [&](std::size_t rank) {
    const Step& step = plans[rank].steps[next[rank]];
    const int self = plans[rank].shape.rank;
    const auto at = [&](Blocks blocks) {
      return (blocks.buffer == Buffer::scratch ? scratches : vectors)[rank].begin() + blocks.first;
    };
    if (step.verb == Verb::send) {
      wires[{self, step.peer}].emplace_back(at(step.left), at(step.left) + step.left.count);
      return true;
    }
    Values result(at(step.left), at(step.left) + step.left.count);
    if (step.verb == Verb::reduce)
      std::transform(result.begin(), result.end(), at(step.right), result.begin(), combine);
    if (step.peer >= 0) {
      auto& wire = wires[{step.peer, self}];
      if (wire.empty()) return false;
      if (step.verb == Verb::recv)
        result = wire.front();
      else
        std::transform(result.begin(), result.end(), wire.front().begin(), result.begin(), combine);
      wire.pop_front();
    }
    std::copy(result.begin(), result.end(), at(step.dst));
    return true;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t rank = 0; rank < plans.size(); ++rank)
      while (next[rank] < plans[rank].steps.size() && step_of(rank)) ++next[rank], moved = true;
  }
  for (std::size_t rank = 0; rank < plans.size(); ++rank) REQUIRE(next[rank] == plans[rank].steps.size());
  return vectors;
}

TEST_CASE("every rank ends an all-reduce with the same bits, though the order of operands matters") {
  for (const Entry& entry : catalogue(Collective::all_reduce))
    for (int ranks = 1; ranks <= 33; ++ranks) {
      CAPTURE(std::string{entry.name});
      CAPTURE(ranks);
      std::vector<Plan> plans;
      for (int rank = 0; rank < ranks; ++rank) plans.push_back(entry.build({.rank = rank, .ranks = ranks, .radix = 3}));
      const auto results = combined(plans);
      for (const auto& result : results) REQUIRE(result == results.front());
    }
}

TEST_CASE("in groups, members talk to their leader alone, once each way, and leaders to members and few leaders") {
  for (const Entry& entry : catalogue()) {
    if (entry.name != "hierarchical" || detail::is_rooted(entry.collective)) continue;
    for (const int radix : {2, 3, 8})
      for (int rank = 0; rank < 23; ++rank) {
        CAPTURE(std::string{name_of(entry.collective)});
        CAPTURE(radix);
        CAPTURE(rank);
        const Plan plan = entry.build({.rank = rank, .ranks = 23, .radix = radix});
        const int leader = rank - rank % radix;
        const int members = std::min(radix, 23 - leader) - 1;
        std::map<int, int> messages;
        for (const Step& step : plan.steps)
          if (step.peer >= 0) ++messages[step.peer];
        if (rank != leader) REQUIRE(messages == std::map<int, int>{{leader, 2}});
        for (int member = leader + 1; rank == leader && member <= leader + members; ++member)
          REQUIRE(std::exchange(messages[member], 0) == 2);
        std::erase_if(messages, [](const auto& peer) { return peer.second == 0; });
        for (const auto& [peer, count] : messages) REQUIRE(peer % radix == 0);
        const int groups = (22 + radix) / radix;
        const int leaders = entry.collective == Collective::reduce_scatter ? groups - 1 : 2 * log_up(groups);
        if (rank == leader) REQUIRE(static_cast<int>(messages.size()) <= leaders);
      }
  }
}

TEST_CASE("no rank but a member of a group receives a block of a broadcast or all-gather that it has") {
  for (const Collective collective : {Collective::broadcast, Collective::all_gather})
    for (const Entry& entry : catalogue(collective))
      for (int ranks = 1; ranks <= 33; ++ranks)
        for (int rank = 0; rank < ranks; ++rank) {
          const Plan plan = entry.build({.rank = rank, .ranks = ranks, .root = ranks / 2});
          int received = 0;
          for (const Step& step : plan.steps)
            if (step.verb == Verb::recv) received += step.dst.count;
          CAPTURE(std::string{entry.name});
          CAPTURE(ranks);
          CAPTURE(rank);
          const bool at_root = collective == Collective::broadcast && rank == ranks / 2;
          const int lacking = collective == Collective::all_gather ? ranks - 1 : at_root ? 0 : ranks;
          const bool is_member =
              collective == Collective::all_gather && entry.name == "hierarchical" && rank % 2 == 1;  // of two
          REQUIRE(received == lacking + (is_member ? 1 : 0));
        }
}

}  // namespace
}  // namespace tutti::algorithms
