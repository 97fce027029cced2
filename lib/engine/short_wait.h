#pragma once

#include <sched.h>

#include <atomic>

#include "lib/base/pause.h"

namespace tutti::detail {

/// A wait for something that probably comes in a moment, for a caller that owns the engine but does not drive it.
/// Driving waits better, but costs more.
class ShortWait {
 public:
  /// `hurried`: other work needs the engine. Then there are only a few tries, and none of them yields the core.
  /// `has_mail`: whether other threads have left something for the owner of the engine, such as the news of a failure.
  ShortWait(bool oversubscribed, bool hurried, const std::atomic<bool>& has_mail)
      : has_mail_(has_mail),
        tries_before_yielding_(oversubscribed ? 0 : usual_tries_before_yielding),
        most_tries_(!hurried         ? usual_tries
                    : oversubscribed ? 0
                                     : hurried_tries) {}

  /// Waits a moment: some microseconds, or as long as other processes want the core. False: the caller should give up.
  bool again() noexcept {
    if (tries_ == most_tries_) return false;
    if (tries_++ < tries_before_yielding_) {
      pause_briefly();
    } else {
      sched_yield();
      return !has_mail_.load(std::memory_order_relaxed);
    }
    return true;
  }
  int tries() const { return tries_; }
  bool has_yielded() const { return tries_ > tries_before_yielding_; }

 private:
  static constexpr int usual_tries = 300;
  static constexpr int hurried_tries = 8;
  /// Even if there is a core for each rank, two ranks may run on one.
  static constexpr int usual_tries_before_yielding = 100;

  const std::atomic<bool>& has_mail_;
  int tries_before_yielding_;
  int most_tries_;
  int tries_ = 0;
};

}  // namespace tutti::detail
