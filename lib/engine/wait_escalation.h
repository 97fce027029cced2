#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

#include "lib/base/answer_deadline.h"

namespace tutti::detail {

/// The stages of a long wait: ask the other ranks soon, and then less and less often; demand an answer at the deadline;
/// give up if none comes.
class WaitEscalation {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Act { ask, demand, give_up };

  /// `watched`: there is a failure detector that can be asked.
  void begin(Clock::time_point now, Clock::time_point end, bool watched) {
    end_ = end;
    pause_ = first_pause;
    stage_ = watched ? Act::ask : Act::give_up;
    answer_deadline_.reset();
    next_ = watched ? std::min(now + pause_, end_) : end_;
  }
  /// A rank has gone for which this may be waiting: asks soon, and often again.
  void hasten(Clock::time_point now) {
    if (stage_ != Act::ask) return;
    pause_ = first_pause / 2;
    next_ = std::min(next_, now + first_pause);
  }
  /// When act() must be called next.
  Clock::time_point next() const { return next_; }
  /// What to do at that time.
  Act act(Clock::time_point now) {
    if (stage_ == Act::ask && now >= end_) stage_ = Act::demand;
    switch (stage_) {
      case Act::ask:
        pause_ = std::min(2 * pause_, longest_pause);
        next_ = std::min(now + pause_, end_);
        return Act::ask;
      case Act::demand:
        stage_ = Act::give_up;
        answer_deadline_.emplace(answer_time, now);
        break;
      case Act::give_up:
        if (!answer_deadline_ || answer_deadline_->is_over(now)) return Act::give_up;
    }
    next_ = answer_deadline_->end();
    return Act::demand;
  }

 private:
  static constexpr std::chrono::milliseconds first_pause{200};
  static constexpr std::chrono::milliseconds longest_pause{5000};
  static constexpr std::chrono::milliseconds answer_time{500};  ///< see docs/failures.md

  Clock::time_point end_{};
  Clock::time_point next_{};
  std::chrono::milliseconds pause_{};
  std::optional<AnswerDeadline> answer_deadline_;  // since the demand
  Act stage_ = Act::give_up;
};

/// Lets one of the operations that would ask at about the same time ask for all of them.
class AskLimit {
 public:
  bool pass(WaitEscalation::Clock::time_point now, bool is_overdue) {
    WaitEscalation::Clock::time_point& last = is_overdue ? demanded_ : asked_;
    if (now - last < pause) return false;
    last = now;
    return true;
  }

 private:
  static constexpr std::chrono::milliseconds pause{50};

  WaitEscalation::Clock::time_point asked_{};
  WaitEscalation::Clock::time_point demanded_{};
};

}  // namespace tutti::detail
