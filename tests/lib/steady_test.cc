// Once warm, a call allocates nothing. A queue may still grow, a few times in all, when a rank runs further ahead than
// ever before; an allocation per call would show as 500.

#include <doctest/doctest.h>

#include <vector>

#include "tests/support/world.h"
#include "tests/transport/allocations.h"

namespace tutti::testing {
namespace {

using transport::testing::allocations;

constexpr std::size_t few = 10;

template <class Body>
std::size_t allocations_of(Body&& body) {
  for (int warm_up = 0; warm_up < 50; ++warm_up) body();
  const std::size_t before = allocations();
  for (int round = 0; round < 500; ++round) body();
  return allocations() - before;
}

TEST_CASE("blocking collectives allocate nothing once warm") {
  for (const Kind kind : {Kind::inproc, Kind::shm}) {
    run_ranks({.ranks = 3, .kind = kind}, [](Communicator& comm) {
      std::vector<float> data(1000, 1.0F);
      std::vector<float> all(3000);
      CHECK(allocations_of([&] { comm.all_reduce(data, max); }) <= few);
      CHECK(allocations_of([&] { comm.all_reduce(data, max, {.algorithm = "ring"}); }) <= few);
      CHECK(allocations_of([&] { comm.broadcast(data, {.root = 1}); }) <= few);
      CHECK(allocations_of([&] { comm.all_gather(data, all); }) <= few);
      CHECK(allocations_of([&] { comm.barrier(); }) <= few);
    });
  }
}

}  // namespace
}  // namespace tutti::testing
