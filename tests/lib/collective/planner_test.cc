#include "lib/collective/planner.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>

#include "tutti/error.h"

namespace tutti::detail {
namespace {

Planner planner(const std::string& defaults, bool deterministic = false) {
  return Planner{{.rank = 1,
                  .ranks = 4,
                  .transport = "tcp",
                  .oversubscribed = false,
                  .deterministic = deterministic,
                  .default_algorithms = defaults,
                  .table = {&algorithms::TuningTable::builtin(), [](const auto*) {}},
                  .given = {}}};
}

std::string chosen(const Planner& planner, Collective collective, std::string_view algorithm = {}) {
  return to_string(planner.choose({.collective = collective, .algorithm = algorithm, .bytes = 1000}));
}

std::string refusal(const std::string& defaults) {
  try {
    planner(defaults);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("a default algorithm holds for every collective that has it, one per collective for that one") {
  CHECK(chosen(planner("ring"), Collective::all_reduce) == "ring");
  CHECK(chosen(planner("ring"), Collective::broadcast) != "ring");
  CHECK(chosen(planner("tree:4"), Collective::broadcast) == "tree:4");
  const Planner two = planner("all_reduce:tree:8;broadcast:chain");
  CHECK(chosen(two, Collective::all_reduce) == "tree:8");
  CHECK(chosen(two, Collective::broadcast) == "chain");
  const Planner gaps = planner(";ring;;broadcast:chain;");
  CHECK(chosen(gaps, Collective::all_reduce) == "ring");
  CHECK(chosen(gaps, Collective::broadcast) == "chain");
}

TEST_CASE("a call's own algorithm wins over the default") {
  CHECK(chosen(planner("ring"), Collective::all_reduce, "circulant") == "circulant");
}

TEST_CASE("an unknown default is refused at once and the nearest name offered") {
  CHECK(refusal("rign").find("ring") != std::string::npos);
  CHECK(refusal("all_redcue:ring").find("all_reduce") != std::string::npos);
  CHECK(refusal("all_reduce:rign").find("ring") != std::string::npos);
}

TEST_CASE("deterministic keeps to algorithms that reduce in rank order, and only for reductions") {
  const Planner strict = planner("ring", true);
  CHECK(chosen(strict, Collective::all_reduce).rfind("direct", 0) == 0);
  CHECK(chosen(strict, Collective::all_gather) == "ring");
  CHECK_THROWS_AS(chosen(strict, Collective::reduce_scatter, "ring"), Error);
  CHECK_THROWS_WITH_AS(
      strict.choose({.collective = Collective::all_to_all, .algorithm = "bruck", .bytes = 4, .equal_parts = false}),
      "all_to_all cannot use the algorithm bruck here: it needs parts of equal size, and this is a _v call", Error);
}

TEST_CASE("a plan is built once and serves every size") {
  Planner cache = planner("");
  const Prepared& small = cache.prepare({.collective = Collective::all_reduce, .algorithm = "ring", .bytes = 4});
  const Prepared& large = cache.prepare({.collective = Collective::all_reduce, .algorithm = "ring", .bytes = 1 << 20});
  CHECK(&small == &large);
  CHECK(&small != &cache.prepare({.collective = Collective::all_reduce, .algorithm = "ring*2", .bytes = 4}));
}

TEST_CASE("a plan in slices is lowered to a board for short calls only") {
  Planner cache = planner("");
  const auto prepared = [&cache](Collective collective, std::size_t bytes) -> const Prepared& {
    return cache.prepare({.collective = collective, .algorithm = "all_pairs*4", .bytes = bytes});
  };
  for (const Collective collective : {Collective::all_reduce, Collective::reduce_scatter}) {
    CHECK_FALSE(prepared(collective, 65'537).board);
    CHECK(prepared(collective, 65'537).why_no_board == "sums a long vector slice by slice");
    CHECK(prepared(collective, 65'536).board);
    CHECK_FALSE(prepared(collective, 1 << 20).board);
    CHECK(&prepared(collective, 65'536) == &prepared(collective, 4));
  }
  CHECK(cache.prepare({.collective = Collective::all_reduce, .algorithm = "all_pairs", .bytes = 1 << 20}).board);
}

TEST_CASE("a root that sends nothing knows how many ranks it receives from") {
  Planner cache = planner("");  // of rank 1
  const auto senders = [&cache](Collective collective, std::string_view algorithm, int root) {
    return cache.prepare({.collective = collective, .algorithm = algorithm, .bytes = 4, .root = root}).senders_to_root;
  };
  CHECK(senders(Collective::gather, "direct", 1) == 3);
  CHECK(senders(Collective::gather, "direct", 0) == 0);
  CHECK(senders(Collective::reduce, "chain*4", 1) == 1);     // four messages of one rank
  CHECK(senders(Collective::broadcast, "chain*4", 2) == 0);  // its sender has the root's messages to receive
  CHECK(senders(Collective::all_to_all, "pairwise", 0) == 0);
}

/// With somebody's own plan for four ranks and root 2.
Planner with_plan(Collective collective, int ranks = 4, bool deterministic = false) {
  auto given = std::make_shared<algorithms::GivenPlans>();
  given->name = "own";
  given->collective = collective;
  const algorithms::Choice choice = algorithms::find(collective, "direct");
  for (int rank = 0; rank < 4; ++rank) given->plans.push_back(choice.entry->build({rank, 4, 2}));
  return Planner{{.rank = 1,
                  .ranks = ranks,
                  .transport = "tcp",
                  .deterministic = deterministic,
                  .default_algorithms = "",
                  .table = {&algorithms::TuningTable::builtin(), [](const auto*) {}},
                  .given = given}};
}

TEST_CASE("a plan of one's own serves the calls that it is for, and by name no others") {
  Planner own = with_plan(Collective::reduce);
  CHECK(own.prepare({.collective = Collective::reduce, .bytes = 4, .root = 2}).name == "own");
  CHECK(own.prepare({.collective = Collective::reduce, .bytes = 4, .root = 1}).name != "own");
  CHECK(own.prepare({.collective = Collective::reduce, .algorithm = "tree", .bytes = 4, .root = 2}).name == "tree:2");
  CHECK(own.prepare({.collective = Collective::broadcast, .bytes = 4, .root = 2}).name != "own");
  CHECK(own.name_of_choice({.collective = Collective::reduce, .bytes = 4, .root = 2}) == "own");
  CHECK(own.has_default({.collective = Collective::reduce, .root = 2}));
  CHECK_FALSE(own.has_default({.collective = Collective::reduce, .root = 1}));
  CHECK_FALSE(own.has_default({.collective = Collective::broadcast, .root = 2}));
  CHECK_THROWS_WITH_AS(own.prepare({.collective = Collective::reduce, .algorithm = "own", .bytes = 4, .root = 1}),
                       "reduce cannot use the plan own here: it is for root 2, not 1", Error);
  CHECK_THROWS_WITH_AS(with_plan(Collective::reduce, 3)
                           .prepare({.collective = Collective::reduce, .algorithm = "own", .bytes = 4, .root = 2}),
                       "reduce cannot use the plan own here: it is for 4 ranks, not 3", Error);
  CHECK_THROWS_AS(with_plan(Collective::reduce, 4, true)
                      .prepare({.collective = Collective::reduce, .algorithm = "own", .bytes = 4, .root = 2}),
                  Error);
}

TEST_CASE("different plans under one name have different hashes") {
  const auto hash = [](Collective collective) {
    return with_plan(collective).prepare({.collective = collective, .algorithm = "own", .bytes = 4, .root = 2}).hash;
  };
  CHECK(hash(Collective::reduce) == hash(Collective::reduce));
  CHECK(hash(Collective::reduce) != hash(Collective::gather));
}

}  // namespace
}  // namespace tutti::detail
