#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <thread>

#include "lib/engine/ownership.h"

namespace tutti::detail {

/// The thread that drives an engine while asynchronous work is running and no caller waits. It starts with the first
/// asynchronous call.
class Helper {
 public:
  /// `drive` is called when the helper has taken the engine. It drives while is_needed(), and leaves the engine.
  Helper(Ownership& ownership, std::function<void()> drive) : ownership_(ownership), drive_(std::move(drive)) {}

  /// Starts the thread, if it has not started. Throws Error{system}.
  void start();
  /// Joins the thread, which cannot start again.
  void stop() noexcept;

  void work_begins() noexcept {
    asynchronous_.fetch_add(1);
    begun_.fetch_add(1);
  }
  void work_ends() noexcept { asynchronous_.fetch_sub(1); }
  bool has_stopped() const noexcept { return stopping_.load(); }
  /// Whether asynchronous operations are running.
  bool has_work() const noexcept { return asynchronous_.load() > 0; }
  /// The same, but the answer may be a little old.
  bool seems_to_have_work() const noexcept { return asynchronous_.load(std::memory_order_relaxed) > 0; }
  /// Whether it has work, and no caller waits that could drive instead.
  bool is_needed() const noexcept { return has_work() && !ownership_.others_wait() && !stopping_; }
  /// A thread begins to drive, so the helper need not.
  void note_driver() noexcept { drivers_.fetch_add(1, std::memory_order_relaxed); }
  /// The owner has left. Called under the mutex of the ownership.
  void note_left() noexcept {
    if (has_work() && !looks_) wanted_.notify_one();
  }

 private:
  void run();

  Ownership& ownership_;
  const std::function<void()> drive_;
  std::condition_variable wanted_;
  std::atomic<bool> stopping_{false};
  std::atomic<int> asynchronous_{0};
  std::atomic<std::uint64_t> begun_{0};
  std::atomic<std::uint64_t> drivers_{0};  // so far
  bool looks_ = false;                     // it looks now and then by itself and need not be notified
  std::thread thread_;
};

}  // namespace tutti::detail
