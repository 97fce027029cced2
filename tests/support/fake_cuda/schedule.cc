#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <numeric>
#include <random>
#include <string_view>

#include "tests/support/fake_cuda/fake.h"

namespace fake_cuda {
namespace {

struct Schedule {
  enum class Kind { eager, lazy, random, reverse } kind = Kind::eager;
  std::mt19937 numbers;
};

Schedule& schedule() {
  static Schedule& read = *[] {
    auto* const made = new Schedule;
    const char* const text = std::getenv("FAKE_CUDA_SCHEDULE");
    const std::string_view name = text == nullptr ? "eager" : text;
    if (name == "lazy")
      made->kind = Schedule::Kind::lazy;
    else if (name == "reverse")
      made->kind = Schedule::Kind::reverse;
    else if (name.starts_with("random:"))
      made->kind = Schedule::Kind::random;
    else if (name != "eager")
      misuse("FAKE_CUDA_SCHEDULE is eager, lazy, random:SEED or reverse, not " + std::string{name});
    if (made->kind == Schedule::Kind::random)
      made->numbers.seed(static_cast<unsigned>(std::atoi(text + std::string_view{"random:"}.size())));
    return made;
  }();
  return read;
}

/// A stream that was made later, and has something to run.
bool later_one_runs(const StreamState& stream) {
  return std::ranges::any_of(stream.context->streams, [&](const StreamState* other) {
    return other->number > stream.number && !other->pending.empty() && word_reached(*other->pending.front()) &&
           std::ranges::all_of(other->pending.front()->after, [](const auto& point) { return point->done; });
  });
}

}  // namespace

void delay(Lock& lock, StreamState& stream, bool& draining) {
  Schedule& how = schedule();
  switch (how.kind) {
    case Schedule::Kind::eager:
      return;
    case Schedule::Kind::lazy:
      // Until somebody waits for it, or nothing has happened for a while: then all that it has.
      if (!draining) changed.wait_for(lock, std::chrono::milliseconds(1), [&] { return stream.wanted; });
      draining = true;
      return;
    case Schedule::Kind::reverse:
      changed.wait_for(lock, std::chrono::microseconds(300), [&] { return !later_one_runs(stream); });
      return;
    case Schedule::Kind::random:
      if (how.numbers() % 4 == 0)
        changed.wait_for(lock, std::chrono::microseconds(how.numbers() % 300), [] { return false; });
      return;
  }
}

std::vector<unsigned> order_of_blocks(unsigned blocks) {
  std::vector<unsigned> order(blocks);
  std::iota(order.begin(), order.end(), 0u);
  const Hidden hidden;
  const Lock lock{big};
  if (schedule().kind == Schedule::Kind::random) std::ranges::shuffle(order, schedule().numbers);
  if (schedule().kind == Schedule::Kind::reverse) std::ranges::reverse(order);
  return order;
}

}  // namespace fake_cuda
