#pragma once

#include <algorithm>
#include <chrono>

namespace tutti::detail {

/// The stages of a wait that takes long: ask around soon, then ever less often, demand a verdict at the deadline, and
/// go without one if it does not come.
class Vigil {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Act { ask, demand, give_up };

  /// `watched`: there is somebody to ask.
  void begin(Clock::time_point now, Clock::time_point end, bool watched) {
    end_ = end;
    pause_ = first_pause;
    stage_ = watched ? Act::ask : Act::give_up;
    next_ = watched ? std::min(now + pause_, end_) : end_;
  }
  /// When to act next.
  Clock::time_point next() const { return next_; }
  /// What to do now that it is that late.
  Act act(Clock::time_point now) {
    if (stage_ == Act::ask && now >= end_) stage_ = Act::demand;
    switch (stage_) {
      case Act::ask:
        pause_ = std::min(2 * pause_, longest_pause);
        next_ = std::min(now + pause_, end_);
        return Act::ask;
      case Act::demand:
        stage_ = Act::give_up;
        next_ = now + verdict_time;
        return Act::demand;
      case Act::give_up:
        break;
    }
    return Act::give_up;
  }

 private:
  static constexpr std::chrono::milliseconds first_pause{200};
  static constexpr std::chrono::milliseconds longest_pause{5000};
  static constexpr std::chrono::milliseconds verdict_time{800};

  Clock::time_point end_{};
  Clock::time_point next_{};
  std::chrono::milliseconds pause_{};
  Act stage_ = Act::give_up;
};

}  // namespace tutti::detail
