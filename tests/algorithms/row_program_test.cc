// Which plans pass their sums along a row of ranks, and the proof of that.

#include "algorithms/row_program.h"

#include <doctest/doctest.h>

#include <cstdio>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "algorithms/board_program.h"
#include "algorithms/catalogue.h"
#include "algorithms/check_row.h"
#include "tests/algorithms/hand_made.h"

namespace tutti::algorithms::testing {
namespace {

using enum Collective;

RowLowering lowered(Collective collective, const char* name, const Shape& shape) {
  return lower_to_row(plans_of_all(find(collective, name), shape));
}

std::string why_not(const std::vector<Plan>& plans) { return lower_to_row(plans).why_not; }

TEST_CASE("every algorithm of the catalogue that passes sums along a row is right there, for 1 to 40 ranks") {
  int proved = 0;
  for (const Entry& entry : catalogue()) {
    if (!entry.in_row) continue;
    for (int ranks = 1; ranks <= 40; ++ranks)
      for (const int root : std::set<int>{0, ranks / 2, ranks - 1})
        for (const int pipeline : {1, 3}) {
          if (root != 0 && entry.collective == all_reduce) continue;
          CAPTURE(std::string{entry.name});
          CAPTURE(ranks);
          CAPTURE(root);
          const Shape shape{0, ranks, root, pipeline};
          const RowLowering made = lower_to_row(plans_of_all({&entry, 2, pipeline}, shape));
          REQUIRE_MESSAGE(made.program, made.why_not);
          CHECK(made.program->is_spread == (entry.collective == all_reduce || ranks == 1));
          CHECK(made.program->row.back() == root);
          const Verdict verdict = check_row(entry.collective, shape, *made.program);
          CHECK_MESSAGE(verdict.ok(), problems(verdict));
          ++proved;
        }
  }
  CHECK(proved > 200);
  std::printf("%d shapes proved in rows\n", proved);
}

TEST_CASE("the algorithms that the catalogue says pass sums along a row are those whose plans do") {
  for (const Entry& entry : catalogue()) {
    CAPTURE(std::string{name_of(entry.collective)});
    CAPTURE(std::string{entry.name});
    bool can = true;
    for (const int ranks : {7, 8, 9}) can = can && lower_to_row(plans_of_all({&entry}, {0, ranks})).program.has_value();
    CHECK(entry.in_row == can);
  }
}

TEST_CASE("the row of a chain ends at its root, and each rank's neighbour adds next") {
  CHECK(lowered(all_reduce, "chain", {0, 4}).program->row == std::vector<int>{3, 2, 1, 0});
  CHECK(lowered(reduce, "chain", {0, 4, 2}).program->row == std::vector<int>{1, 0, 3, 2});
  CHECK(lowered(reduce, "chain*8", {0, 4, 2, 8}).program == lowered(reduce, "chain", {0, 4, 2}).program);
}

TEST_CASE("plans without a row say why") {
  CHECK(lowered(all_reduce, "ring", {0, 4}).why_not == "does not pass all sums along one row of ranks");
  CHECK(lowered(reduce, "tree", {0, 4}).why_not == "adds more than its own input to what it receives");
  CHECK(lowered(broadcast, "chain", {0, 4}).why_not == "does not pass all sums along one row of ranks");
  const auto sums_at_1 = plans_of(2, [](PlanBuilder& plan, int rank) {
    if (rank == 0) plan.send(1, in(0, 2));
    if (rank == 1) plan.recv_reduce(0, out(0, 2), in(0, 2));
    if (rank == 1) plan.send(0, out(0, 2));
    if (rank == 0) plan.recv(1, out(0, 2));
  });
  CHECK(why_not(sums_at_1).empty());
  const auto other_blocks = plans_of(2, [](PlanBuilder& plan, int rank) {
    if (rank == 1) plan.send(0, in(0));
    if (rank == 0) plan.recv_reduce(1, out(1), in(1));
  });
  CHECK(why_not(other_blocks) == "adds more than its own input to what it receives");
  const auto half = plans_of(2, [](PlanBuilder& plan, int rank) {
    if (rank == 1) plan.send(0, in(0));
    if (rank == 0) plan.recv_reduce(1, out(0), in(0));
  });
  CHECK(why_not(half) == "does not pass all sums along one row of ranks");
  const auto waits = plans_of(2, [](PlanBuilder& plan, int rank) {
    if (rank == 0) plan.recv_reduce(1, out(0), in(0));
  });
  CHECK(why_not(waits) == "waits for a message that is never sent");
  const auto late = plans_of(2, [](PlanBuilder& plan, int rank) {
    if (rank == 1) plan.send(0, in(0, 2));
    if (rank == 1) return;
    plan.recv(1, out(0, 2));
    plan.reduce(out(0, 2), in(0, 2), out(0, 2));
  });
  CHECK(why_not(late) == "adds what has already been received");
}

TEST_CASE("the proof finds what is wrong with a row") {
  const auto verdict = [](Collective collective, std::vector<int> row, bool is_spread) {
    return problems(check_row(collective, {0, 3}, {std::move(row), is_spread}));
  };
  CHECK(verdict(all_reduce, {2, 0, 1}, true).empty());
  CHECK(verdict(reduce, {2, 1, 0}, false).empty());
  CHECK(verdict(all_reduce, {2, 1}, true) == "not every rank is in the row once\n");
  CHECK(verdict(all_reduce, {2, 1, 1}, true) == "not every rank is in the row once\n");
  CHECK_FALSE(verdict(all_reduce, {2, 1, 0}, false).empty());
  CHECK_FALSE(verdict(reduce, {0, 1, 2}, false).empty());
}

}  // namespace
}  // namespace tutti::algorithms::testing
