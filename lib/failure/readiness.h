#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "lib/base/wait_hook.h"
#include "lib/failure/control_message.h"

namespace tutti::detail {

/// Whether all ranks are watched, so that work may begin, or a rank has gone before. The failure detector's thread
/// decides; another thread waits for it.
class Readiness {
 public:
  void set_ready() {
    const std::lock_guard lock{mutex_};
    ready_ = true;
    changed_.notify_all();
  }
  /// Gives up, unless it is ready. The first reason counts.
  void give_up(const Failure& reason) {
    const std::lock_guard lock{mutex_};
    if (!ready_ && !hopeless_) hopeless_ = reason;
    changed_.notify_all();
  }
  /// Waits until it is ready, until give_up(), or until `deadline`. False: it is not ready. Throws Error{aborted} if
  /// the program interrupts it.
  bool wait(std::chrono::steady_clock::time_point deadline) {
    std::unique_lock lock{mutex_};
    while (!changed_.wait_until(lock, next_question(deadline), [this] { return ready_ || hopeless_; })) {
      if (std::chrono::steady_clock::now() >= deadline) break;
      lock.unlock();
      end_if_program_interrupts();
      lock.lock();
    }
    return ready_;
  }
  bool is_ready() const {
    const std::lock_guard lock{mutex_};
    return ready_;
  }
  std::optional<Failure> hopeless() const {
    const std::lock_guard lock{mutex_};
    return hopeless_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool ready_ = false;
  std::optional<Failure> hopeless_;
};

}  // namespace tutti::detail
