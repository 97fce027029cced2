// Does the checker notice? Every algorithm's plans are changed in all the small ways there are, one at a time. A change
// that the checker lets pass must not have changed the meaning. The test shows that without the checker, in one of four
// ways: the plan is the same; it is the same up to names; the order that was taken out follows from the rest; or the
// plans, run with numbers, still do what their collective promises.

#include <doctest/doctest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "algorithms/catalogue.h"
#include "algorithms/check.h"
#include "tests/algorithms/entries.h"
#include "tests/algorithms/mutants.h"
#include "tests/algorithms/random_order.h"
#include "tests/support/sample.h"

namespace tutti::algorithms::testing {
namespace {

struct Tally {
  std::size_t mutants = 0;
  std::size_t caught = 0;
  std::size_t identical = 0;
  std::size_t renamed = 0;
  std::size_t implied = 0;
  std::size_t survived = 0;
  std::size_t second_opinions = 0;  // runs of mutants that were caught
  std::size_t agreed = 0;
  std::size_t equivalent() const { return identical + renamed + implied + survived; }
};

/// Why a mutant that passed is right after all; empty if it is not. `plans` are those with the mutant among them.
std::string trouble_with(const Entry& entry, const std::vector<Plan>& plans, const Mutation& mutation,
                         const Plan& original, const Verdict& verdict, Tally& tally) {
  const Plan& mutant = plans[static_cast<std::size_t>(mutation.rank)];
  if (same(mutant, original)) {
    ++tally.identical;
  } else if (mutation.kind == Mutation::Kind::swap && same_but_for_names(original, mutant, mutation.step)) {
    ++tally.renamed;
  } else if (edge_is_implied(mutation, original, mutant)) {
    ++tally.implied;
  } else {
    const std::string trouble = run_in_many_orders(entry.collective, claims_of(entry), plans, verdict.slots);
    if (!trouble.empty()) return trouble;
    ++tally.survived;
  }
  return {};
}

void try_mutants(const Entry& entry, const Shape& shape, tutti::testing::Lot& lot, Tally& tally) {
  std::vector<Plan> plans = build_all(entry, shape);
  std::vector<Mutation> mutations;
  for (const Plan& plan : plans) {
    const std::vector<Mutation> more = all_mutations(plan);
    mutations.insert(mutations.end(), more.begin(), more.end());
  }
  for (const Mutation& mutation : mutations) {
    if (shape.ranks > 2 && !lot.draws()) continue;
    const Plan original = plans[static_cast<std::size_t>(mutation.rank)];
    const auto mutant = apply(mutation, entry.collective, original);
    if (!mutant) continue;
    ++tally.mutants;
    plans[static_cast<std::size_t>(mutation.rank)] = *mutant;
    const Verdict verdict = check(entry.collective, plans, claims_of(entry));
    if (!verdict.ok()) {
      if (tally.caught++ % 10 == 0) {
        ++tally.second_opinions;
        if (!run_in_many_orders(entry.collective, claims_of(entry), plans, 1).empty()) ++tally.agreed;
      }
    } else {
      const std::string trouble = trouble_with(entry, plans, mutation, original, verdict, tally);
      INFO(name_of(entry.collective), " ", std::string(entry.name), " with ", shape.ranks, " ranks, root ", shape.root,
           ", pipeline ", shape.pipeline, ", radix ", shape.radix, ": ", to_string(mutation));
      CHECK_MESSAGE(trouble.empty(), trouble, ", but the checker let it pass");
    }
    plans[static_cast<std::size_t>(mutation.rank)] = original;
  }
}

TEST_CASE("a plan's order follows from its list of steps alone") {
  for (const Entry& entry : catalogue())
    for (int ranks = 1; ranks <= 9; ++ranks)
      for (const Plan& plan : build_all(entry, {0, ranks, ranks / 2, 2, 3})) {
        INFO(name_of(entry.collective), " ", std::string(entry.name), " rank ", plan.shape.rank, " of ", ranks);
        CHECK(same(rebuild(entry.collective, plan, plan.steps), plan));
      }
}

TEST_CASE("proved plans give the right numbers when they run, and with one slot less they do not") {
  tutti::testing::Lot lot{1, 6};
  for (const Entry& entry : catalogue())
    for (int ranks = 1; ranks <= 9; ++ranks) {
      if (ranks > 4 && !lot.draws()) continue;
      const std::vector<Plan> plans = build_all(entry, {0, ranks, ranks - 1, entry.has_pipeline ? 2 : 1, 3});
      const Verdict verdict = check(entry.collective, plans, claims_of(entry));
      INFO(name_of(entry.collective), " ", std::string(entry.name), " with ", ranks, " ranks");
      REQUIRE(verdict.ok());
      CHECK(run_in_many_orders(entry.collective, claims_of(entry), plans, verdict.slots) == "");
      if (verdict.messages > 0)
        CHECK(run_in_random_order({entry.collective, claims_of(entry), verdict.slots - 1}, plans, 1) != "");
    }
}

TEST_CASE("the checker catches every change that matters") {
  Tally tally;
  tutti::testing::Lot lot{4, 64};
  const int most_ranks = tutti::testing::only_a_sanitized_sample() ? 4 : 8;
  for (const Entry& entry : catalogue())
    for (const int ranks : {2, 3, 4, 5, 7, 8}) {
      if (ranks > most_ranks) break;
      try_mutants(entry, {0, ranks, 0, 1, 2}, lot, tally);
      try_mutants(entry, {0, ranks, ranks - 1, entry.has_pipeline ? 2 : 1, entry.has_radix ? 3 : 2}, lot, tally);
    }
  std::printf(
      "%zu mutants, %zu caught, %zu shown equivalent (%zu identical, %zu but for names, %zu implied, %zu run)\n",
      tally.mutants, tally.caught, tally.equivalent(), tally.identical, tally.renamed, tally.implied, tally.survived);
  std::printf("of %zu caught mutants that were run with numbers, %zu failed there too\n", tally.second_opinions,
              tally.agreed);
  CHECK(tally.caught + tally.equivalent() == tally.mutants);
  CHECK(tally.caught > tally.mutants / 2);
  // That runs find nothing means little unless runs also fail for most mutants that the checker catches. (They do not
  // see a rank touch blocks that it does not have, nor every race.)
  CHECK(tally.agreed > tally.second_opinions * 9 / 10);
}

}  // namespace
}  // namespace tutti::algorithms::testing
