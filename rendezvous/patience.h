#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

#include "lib/base/wait_hook.h"

namespace tutti::rendezvous {

/// Sleeps a little longer each time, up to 20 ms, but not past the deadline; the program may interrupt it.
class Patience {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Patience(Clock::time_point deadline) : deadline_(deadline) {}
  bool is_over() const { return Clock::now() >= deadline_; }
  void pause() {
    std::this_thread::sleep_until(std::min(Clock::now() + pause_, deadline_));
    if (const auto now = Clock::now(); now >= question_) {
      end_if_program_interrupts();
      question_ = next_question(deadline_);
    }
    pause_ = std::min<Clock::duration>(pause_ * 2, std::chrono::milliseconds{20});
  }

 private:
  Clock::time_point deadline_;
  Clock::time_point question_ = next_question(deadline_);
  Clock::duration pause_ = std::chrono::microseconds{500};
};

/// At least a moment, so that what has come is found even if the deadline has just passed.
inline std::chrono::milliseconds time_left(std::chrono::steady_clock::time_point deadline) {
  using std::chrono::milliseconds;
  return std::max(std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now()), milliseconds{1});
}

}  // namespace tutti::rendezvous
