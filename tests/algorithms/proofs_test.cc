#include "algorithms/proofs.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/algorithms/hand_made.h"
#include "tutti/error.h"

namespace tutti::algorithms::testing {
namespace {

int built = 0;

/// All-gather in which each rank sends its part to all others; `forgetful` ranks do not send to the last one.
Plan gather_from_all(const Shape& shape, bool forgetful) {
  ++built;
  PlanBuilder plan{shape};
  plan.copy(out(shape.rank), in(shape.rank));
  for (int peer = 0; peer < shape.ranks; ++peer)
    if (peer != shape.rank && !(forgetful && peer + 1 == shape.ranks)) plan.send(peer, in(shape.rank));
  for (int peer = 0; peer < shape.ranks; ++peer)
    if (peer != shape.rank) plan.recv(peer, out(peer));
  return std::move(plan).build();
}

}  // namespace

TEST_CASE("a right plan is proved once for each shape") {
  const Entry entry{Collective::all_gather, "to_all", [](const Shape& shape) { return gather_from_all(shape, false); }};
  Proofs proofs;
  proofs.require({.entry = &entry}, 3);
  const int once = built;
  proofs.require({.entry = &entry}, 3);
  CHECK(built == once);
  proofs.require({.entry = &entry}, 4);
  CHECK(built > once);
}

TEST_CASE("a wrong plan is refused each time, and the first problem is named") {
  const Entry entry{Collective::all_gather, "lossy", [](const Shape& shape) { return gather_from_all(shape, true); }};
  Proofs proofs;
  for (int repetition = 0; repetition < 2; ++repetition) {
    std::string said;
    try {
      proofs.require({.entry = &entry}, 3);
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::unsupported);
      said = error.what();
    }
    CHECK(said.find("the plan lossy of all_gather over 3 ranks is wrong and was not run: all_gather: rank 2 step") !=
          std::string::npos);
  }
}

}  // namespace tutti::algorithms::testing
