#pragma once

#include <chrono>

namespace tutti::detail {

/// How long others may take to answer. Time in which this process did not run does not count, since it was stopped or
/// its machine was paused: if the end is found long past, the others get as much time again, once.
class AnswerDeadline {
 public:
  using Clock = std::chrono::steady_clock;

  AnswerDeadline(std::chrono::milliseconds time, Clock::time_point now) : time_(time), end_(now + time) {}

  /// When is_over() must be called next.
  Clock::time_point end() const { return end_; }
  bool is_over(Clock::time_point now) {
    if (now < end_) return false;
    if (renewed_ || now - end_ < late) return true;
    renewed_ = true;
    end_ = now + time_;
    return false;
  }

 private:
  /// More than a process that runs is ever late, even among many on few cores.
  static constexpr std::chrono::milliseconds late{100};

  std::chrono::milliseconds time_;
  Clock::time_point end_;
  bool renewed_ = false;
};

}  // namespace tutti::detail
