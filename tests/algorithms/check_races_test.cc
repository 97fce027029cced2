// How much work it is to prove that no steps race.

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "algorithms/check.h"
#include "algorithms/plan_text.h"
#include "tests/algorithms/hand_made.h"

namespace tutti::algorithms::testing {
namespace {

using enum Collective;

/// An all_gather of two ranks with chains of steps besides, each of which waits for the one before it alone, though all
/// read what the first copy wrote. The last step of all races, if it is to.
std::vector<Plan> with_chains(std::uint32_t chains, std::uint32_t length, bool racing) {
  std::string text = "tutti-plans 1\nall_gather chains ranks 2 root 0 pipeline 1\nrank 0 scratch";
  for (std::uint32_t chain = 0; chain < chains; ++chain) text += " 0";
  text += "\nsend 1 i0\nrecv 1 o1\ncopy o0 i0 after 0\n";
  for (std::uint32_t i = 0; i < length * chains; ++i)
    text +=
        "copy s" + std::to_string(i % chains) + " o0 after " + std::to_string(i < chains ? 2 : 3 + i - chains) + "\n";
  if (racing) text += "copy o0 i0 after 2\n";
  text += "rank 1\nsend 0 i1\nrecv 0 o0\ncopy o1 i1 after 0\n";
  return read_plans(text, "test").plans;
}

TEST_CASE("steps of long chains are put in order by few looks") {
  for (const std::uint32_t chains : {1U, 7U}) {
    const Verdict right = check(all_gather, with_chains(chains, 20'000 / chains, false));
    check_proves(right);
    CHECK(right.searched > 20'000);
    CHECK(right.searched < 40 * 20'000);
    CHECK_THROWS_WITH(with_chains(chains, 20'000 / chains, true), doctest::Contains("(copy): races with step "));
  }
}

}  // namespace
}  // namespace tutti::algorithms::testing
