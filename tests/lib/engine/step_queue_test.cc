// In which order steps run, and when.

#include "lib/engine/step_queue.h"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <tuple>
#include <vector>

namespace tutti::detail {
namespace {

/// The queue never looks into operations, so that bytes may stand for them.
struct Operations {
  std::array<std::uint64_t, 2> places{};
  Operation& operator[](std::size_t i) { return reinterpret_cast<Operation&>(places[i]); }
};

using Steps = std::vector<std::tuple<const Operation*, std::uint32_t, std::uint32_t>>;

Steps run(StepQueue& queue) {
  Steps steps;
  queue.run([&](Operation& operation, std::uint32_t step, std::uint32_t piece) {
    steps.emplace_back(&operation, step, piece);
  });
  return steps;
}

TEST_CASE("steps run in the order in which they became ready, those that become so meanwhile, too") {
  Operations operations;
  StepQueue queue;
  queue.ready(operations[0], 3);
  queue.ready(operations[1], 1);
  std::vector<std::uint32_t> ran;
  queue.run([&](Operation& operation, std::uint32_t step, std::uint32_t) {
    ran.push_back(step);
    if (step == 3) queue.ready(operation, 4);
  });
  CHECK(ran == std::vector<std::uint32_t>{3, 1, 4});
  CHECK(queue.empty());
}

TEST_CASE("a step that goes on does so in the next pass") {
  Operations operations;
  StepQueue queue;
  queue.goes_on(operations[0], 3, 1);
  CHECK_FALSE(queue.empty());
  CHECK(run(queue).empty());
  queue.next_pass();
  CHECK(run(queue) == Steps{{&operations[0], 3, 1}});
  CHECK(queue.empty());
}

TEST_CASE("no step of a forgotten operation runs, and all of the others do") {
  Operations operations;
  StepQueue queue;
  for (std::size_t i = 0; i < 2; ++i) {
    queue.ready(operations[i], 1);
    queue.goes_on(operations[i], 2, 1);
  }
  queue.forget(operations[0]);
  queue.next_pass();
  CHECK(run(queue) == Steps{{&operations[1], 1, 0}, {&operations[1], 2, 1}});

  queue.ready(operations[0], 5);
  queue.ready(operations[1], 6);
  std::vector<std::uint32_t> ran;
  queue.run([&](Operation&, std::uint32_t step, std::uint32_t) {
    ran.push_back(step);
    queue.forget(operations[1]);
  });
  CHECK(ran == std::vector<std::uint32_t>{5});
}

}  // namespace
}  // namespace tutti::detail
