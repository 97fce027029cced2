// How the comparison with other libraries takes the time of a call.

#include "cli/measure/measure.h"

#include <doctest/doctest.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <thread>
#include <vector>

#include "cli/measure/median.h"

using namespace tutti::cli;

namespace {

TEST_CASE("the median is the value in the middle, or the mean of the two there") {
  CHECK(measure::median({}) == 0);
  CHECK(measure::median({7}) == 7);
  CHECK(measure::median({9, 1}) == 5);
  CHECK(measure::median({30, 10, 20}) == 20);
  CHECK(measure::median({40, 10, 1000, 20}) == 30);
}

TEST_CASE("a call takes as long as its slowest rank, on every rank, both ways of taking the time") {
  constexpr double slow_us = 300;
  for (const int slow : {0, 1}) {
    measure::Shared* const shared = measure::map_shared_with_children();
    REQUIRE(shared != nullptr);
    std::array<measure::Times, 2> times;
    const auto run = [&](int rank) {
      measure::RankSync sync{shared, rank, 2, /*threads=*/2, /*cores=*/2};
      times[static_cast<std::size_t>(rank)] = measure::measure(sync, {5, 20, 5}, [&] {
        const double end = measure::microseconds_now() + (rank == slow ? slow_us : 0);
        while (measure::microseconds_now() < end) {
        }
      });
      sync.gather();
    };
    std::thread other{run, 1};
    run(0);
    other.join();
    for (const measure::Times& one : times) {
      CHECK(one.least >= slow_us);
      CHECK(one.single >= one.least);
      CHECK(one.p95 >= one.single);
      CHECK(one.loop >= slow_us);
      CHECK(one.iterations >= 2);
    }
    CHECK(times[0].single == times[1].single);
    CHECK(times[0].loop == times[1].loop);
    ::munmap(shared, sizeof *shared);
  }
}

TEST_CASE("ranks with a core each are aligned to a common time") {
  measure::Shared* const shared = measure::map_shared_with_children();
  REQUIRE(shared != nullptr);
  constexpr int rounds = 20;
  struct Passage {
    double entered, start, left;
  };
  std::array<std::array<Passage, rounds>, 2> passages;
  const auto run = [&](int rank) {
    measure::RankSync sync{shared, rank, 2, /*threads=*/1, /*cores=*/2};
    for (Passage& passage : passages[static_cast<std::size_t>(rank)]) {
      passage.entered = measure::microseconds_now();
      sync.align();
      passage.left = measure::microseconds_now();
      passage.start = shared->start;
      sync.gather();
    }
  };
  std::thread other{run, 1};
  run(0);
  other.join();
  for (std::size_t i = 0; i < rounds; ++i) {
    const Passage& mine = passages[0][i];
    const Passage& its = passages[1][i];
    CHECK(std::min(mine.left, its.left) >= std::max(mine.entered, its.entered));
    CHECK(mine.start == its.start);
    CHECK(std::min(mine.left, its.left) >= mine.start);
  }
  ::munmap(shared, sizeof *shared);
}

TEST_CASE("the cores that are told are probed, and no others, by ranks that are bound to one core") {
  const std::vector<int> cores = measure::first_two_cores();
  measure::Shared* const shared = measure::map_shared_with_children();
  REQUIRE(shared != nullptr);
  struct Probes {
    double here, nowhere;
  };
  std::array<Probes, 2> probes;
  const auto run = [&](int rank) {
    CHECK(measure::stay_on(cores.front()));
    measure::RankSync sync{shared, rank, 2, /*threads=*/1, /*cores=*/1};
    Probes& mine = probes[static_cast<std::size_t>(rank)];
    mine.here = sync.probe(cores);
    mine.nowhere = sync.probe(std::array{CPU_SETSIZE - 2, CPU_SETSIZE - 1});
    CHECK(measure::first_two_cores() == std::vector{cores.front()});
  };
  std::thread first{run, 0}, second{run, 1};
  first.join();
  second.join();
  for (const Probes& each : probes) {
    CHECK((each.here > 0) == (cores.size() == 2));
    CHECK(each.nowhere == 0);
  }
  ::munmap(shared, sizeof *shared);
}

}  // namespace
