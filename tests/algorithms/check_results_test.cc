// How results are made, where that decides their last bits.

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "algorithms/check.h"
#include "tests/algorithms/hand_made.h"

namespace tutti::algorithms::testing {
namespace {

using enum Collective;

TEST_CASE("ranks of an all_reduce combine in one order, so that all end with the same bits") {
  const auto every_rank_adds = [](bool own_first) {
    return plans_of(3, [own_first](PlanBuilder& plan, int rank) {
      std::vector<Blocks> inputs(3, in(0, 3));
      for (int other = 0; other < 3; ++other) {
        if (other == rank) continue;
        plan.send(other, in(0, 3));
        plan.recv(other, inputs[static_cast<std::size_t>(other)] = plan.scratch(in(0, 3)));
      }
      if (own_first) std::rotate(inputs.begin(), inputs.begin() + rank, inputs.begin() + rank + 1);
      const Blocks sum = plan.scratch(in(0, 3));
      plan.reduce(sum, inputs[0], inputs[1]);
      plan.reduce(sum, sum, inputs[2]);
      plan.copy(out(0, 3), sum);
    });
  };
  check_proves(check(all_reduce, every_rank_adds(false)));
  const Verdict verdict = check(all_reduce, every_rank_adds(true));  // ranks 0 and 1: 0 + 1 and 1 + 0 are the same
  check_says(verdict, "rank 2: combines output[0] in another order than rank 0");
  CHECK(problems(verdict).find("rank 1") == std::string::npos);
}

}  // namespace
}  // namespace tutti::algorithms::testing
