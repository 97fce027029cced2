#include "lib/base/wait_hook.h"

#include <algorithm>
#include <atomic>
#include <memory>

#include "tutti/error.h"

namespace tutti {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds interval{100};

/// Is never freed, since a thread may look at it at any time; a program sets one or two in its life.
struct Known {
  WaitHook hook;
  const Known* before;
};

std::atomic<const Known*> known{nullptr};

WaitHook current() noexcept {
  const Known* const now = known.load(std::memory_order_acquire);
  return now ? now->hook : WaitHook{};
}

}  // namespace

void set_wait_hook(WaitHook hook) {
  auto added = std::make_unique<Known>(Known{hook, known.load(std::memory_order_relaxed)});
  while (
      !known.compare_exchange_weak(added->before, added.get(), std::memory_order_release, std::memory_order_relaxed)) {
  }
  static_cast<void>(added.release());
}

Clock::time_point next_question(Clock::time_point until) noexcept {
  return current().function ? std::min(until, Clock::now() + interval) : until;
}

bool program_interrupts() noexcept {
  const WaitHook hook = current();
  return hook.function && hook.function(hook.context) != 0;
}

void end_if_program_interrupts() {
  if (program_interrupts()) throw Error{ErrorCode::aborted, "interrupted by the program while it waited"};
}

}  // namespace tutti
