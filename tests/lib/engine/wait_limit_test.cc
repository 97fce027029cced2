// How far a wait goes on when its time is over.

#include <doctest/doctest.h>

#include "lib/engine/engine.h"

namespace tutti::detail {
namespace {

/// Counts the passes of its engine.
class Counter final : public Pollable {
 public:
  explicit Counter(bool moves) : moves_(moves) {}
  bool progress() noexcept override {
    ++passes;
    return moves_;
  }
  bool idle() const noexcept override { return false; }
  bool prepare_sleep() noexcept override { return true; }
  void awake() noexcept override {}

  int passes = 0;

 private:
  const bool moves_;
};

int passes_of_a_wait(Patience patience, bool moves) {
  Engine engine{patience};
  Counter counter{moves};
  engine.exclusively([&] { engine.poll(counter); });
  engine.drive_until(Clock::now());
  engine.exclusively([&] { engine.forget(counter); });
  return counter.passes;
}

TEST_CASE("a wait whose time is over does not yield the core, where other processes may keep it for long") {
  CHECK(passes_of_a_wait({.spins = 0, .yields = 1000}, false) == 1);
  CHECK(passes_of_a_wait({.spins = 10, .yields = 1000}, false) == 11);
}

TEST_CASE("a wait whose time is over ends although every pass moves something") {
  CHECK(passes_of_a_wait({.spins = 10, .yields = 10}, true) <= 8);
}

}  // namespace
}  // namespace tutti::detail
