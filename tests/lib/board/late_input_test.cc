// A call over a board whose input comes late, as that of a stream does.

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
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

/// An all_reduce of `data` whose input is not there yet, on a communicator that has a board.
struct LateCall {
  explicit LateCall(Communicator& comm)
      : state(*detail::Internals::state(comm)),
        engine(*state.group.context().engine),
        operation(state.collectives.make({.collective = Collective::all_reduce,
                                          .input = {data.data(), data.size(), DataType::f32},
                                          .output = {data.data(), data.size(), DataType::f32},
                                          .op = &sum,
                                          .algorithm = "direct"})) {
    REQUIRE(operation.board() != nullptr);
    operation.await_input();
    engine.submit(operation);
  }

  /// Waits until this rank sleeps.
  void sleep() {
    Watcher watcher;
    engine.exclusively([&] { engine.poll(watcher); });
    const auto end = std::chrono::steady_clock::now() + 20s;
    while (!watcher.slept && std::chrono::steady_clock::now() < end) CHECK(!work.wait_for(100ms));
    CHECK(watcher.slept);
    engine.exclusively([&] { engine.forget(watcher); });
  }

  std::vector<float> data = std::vector<float>(100, 1);
  detail::CommunicatorState& state;
  detail::Engine& engine;
  detail::Operation& operation;
  Work work = detail::Internals::make<Work>(&operation);
};

void make_board(Communicator& comm) {
  std::vector<float> data(100, 1);
  comm.all_reduce(data, sum, {.algorithm = "direct"});
}

TEST_CASE("a rank sleeps until its input is there, also where the board has room for it") {
  run_ranks({.ranks = 2}, [](Communicator& comm) {
    make_board(comm);
    LateCall call{comm};
    call.sleep();
    call.engine.exclusively([&] { call.operation.input_is_there(); });
    call.work.wait();
    CHECK(std::ranges::count(call.data, 2.0F) == 100);
  });
}

TEST_CASE("a rank that awaits its input sees on the board that another one has aborted") {
  std::atomic<bool> sleeps = false, over = false;
  run_ranks({.ranks = 2}, [&](Communicator& comm) {
    make_board(comm);
    if (comm.rank() == 1) {
      sleeps.wait(false);
      // What is left of an abort if no other way brings the news.
      const detail::Group& group = detail::Internals::state(comm)->group;
      detail::Engine& engine = *group.context().engine;
      engine.exclusively([&] {
        engine.abort_channel(group.collective_channel(), Error{ErrorCode::aborted, "no more"});
      });
      over.wait(false);
      return;
    }
    LateCall call{comm};
    call.sleep();
    sleeps = true;
    sleeps.notify_one();
    CHECK_THROWS_WITH_AS(call.work.wait_for(20s), doctest::Contains("no more"), Error);
    over = true;
    over.notify_one();
  });
}

}  // namespace
}  // namespace tutti::testing
