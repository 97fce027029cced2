#pragma once

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "lib/base/answer_deadline.h"
#include "lib/failure/control_message.h"

namespace tutti::detail {

/// Broken links and calls that differ, of which this rank has told the coordinator, each until the coordinator should
/// have decided which rank is to blame.
class Suspicions {
 public:
  using Clock = std::chrono::steady_clock;
  struct Suspicion {
    Failure failure;
    Report calls = {};  ///< where calls differ: which
  };

  void add(Suspicion suspicion) {
    waiting_.push_back({std::move(suspicion), AnswerDeadline{answer_time, Clock::now()}});
  }
  /// When the time of the first one is over; max: there is none.
  Clock::time_point next() const {
    auto next = Clock::time_point::max();
    for (const auto& [suspicion, deadline] : waiting_) next = std::min(next, deadline.end());
    return next;
  }
  /// Removes and returns those whose time is over.
  std::vector<Failure> take_overdue(Clock::time_point now) {
    std::vector<Failure> overdue;
    for (auto it = waiting_.begin(); it != waiting_.end();) {
      if (!it->second.is_over(now)) {
        ++it;
        continue;
      }
      overdue.push_back(std::move(it->first.failure));
      it = waiting_.erase(it);
    }
    return overdue;
  }
  /// Removes and returns all.
  std::vector<Suspicion> take_all() {
    std::vector<Suspicion> all;
    for (auto& [suspicion, deadline] : std::exchange(waiting_, {})) all.push_back(std::move(suspicion));
    return all;
  }

 private:
  /// Enough for the coordinator to hear all reports and to answer.
  static constexpr std::chrono::milliseconds answer_time{400};

  std::vector<std::pair<Suspicion, AnswerDeadline>> waiting_;
};

}  // namespace tutti::detail
