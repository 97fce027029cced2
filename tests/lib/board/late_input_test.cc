// A call over a board whose input comes late, as that of a stream does.

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "lib/api/communicator_state.h"
#include "lib/base/internals.h"
#include "lib/collective/operation.h"
#include "lib/engine/engine.h"
#include "tests/support/world.h"

namespace tutti::testing {
namespace {

using namespace std::chrono_literals;

/// Sees whether the engine sleeps. When nobody has anything to do it sleeps a moment, and looks again before it is
/// awake.
struct Watcher final : detail::Pollable {
  bool progress() noexcept override { return false; }
  bool idle() const noexcept override { return false; }
  bool prepare_sleep() noexcept override {
    slept |= std::exchange(has_looked_, true);
    return true;
  }
  void awake() noexcept override { has_looked_ = false; }

  bool slept = false;

 private:
  bool has_looked_ = false;
};

TEST_CASE("a rank sleeps until its input is there, also where the board has room for it") {
  run_ranks({.ranks = 2}, [](Communicator& comm) {
    std::vector<float> data(100, 1);
    comm.all_reduce(data, sum, {.algorithm = "direct"});  // makes the board
    detail::CommunicatorState& state = *detail::Internals::state(comm);
    detail::Engine& engine = *state.group.context().engine;
    detail::Operation& operation = state.collectives.make({.collective = Collective::all_reduce,
                                                           .input = {data.data(), data.size(), DataType::f32},
                                                           .output = {data.data(), data.size(), DataType::f32},
                                                           .op = &sum,
                                                           .algorithm = "direct"});
    REQUIRE(operation.board() != nullptr);
    operation.await_input();
    engine.submit(operation);
    Work work = detail::Internals::make<Work>(&operation);
    Watcher watcher;
    engine.exclusively([&] { engine.poll(watcher); });
    const auto end = std::chrono::steady_clock::now() + 20s;
    while (!watcher.slept && std::chrono::steady_clock::now() < end) CHECK(!work.wait_for(100ms));
    CHECK(watcher.slept);
    engine.exclusively([&] {
      engine.forget(watcher);
      operation.input_is_there();
    });
    work.wait();
    CHECK(std::ranges::count(data, 4.0F) == 100);
  });
}

}  // namespace
}  // namespace tutti::testing
