#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <thread>

#include "lib/engine/ownership.h"

namespace tutti::detail {

/// The thread that drives an engine while asynchronous work is under way and no caller waits. It begins with the first
/// asynchronous call.
class Helper {
 public:
  /// `drive`: owns the engine, drives it while is_needed(), and leaves it.
  Helper(Ownership& ownership, std::function<void()> drive) : ownership_(ownership), drive_(std::move(drive)) {}

  /// Begins, if it has not. Throws Error{system}.
  void start();
  /// Joins it; it cannot begin again.
  void stop() noexcept;

  void work_begins() noexcept {
    asynchronous_.fetch_add(1);
    begun_.fetch_add(1);
  }
  void work_ends() noexcept { asynchronous_.fetch_sub(1); }
  /// Operations run that no caller waits for.
  bool has_work() const noexcept { return asynchronous_.load() > 0; }
  /// The same for a caller that only needs to know soon.
  bool seems_to_have_work() const noexcept { return asynchronous_.load(std::memory_order_relaxed) > 0; }
  /// It has work, and no caller would drive instead.
  bool is_needed() const noexcept { return has_work() && !ownership_.others_wait() && !stopping_; }
  /// A thread begins to drive, so that the helper need not.
  void note_driver() noexcept { drivers_.fetch_add(1, std::memory_order_relaxed); }
  /// The owner has left. Under the ownership's mutex.
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
  std::atomic<std::uint64_t> drivers_{0};  // ever
  bool looks_ = false;                     // by itself, now and then: it need not be called
  std::thread thread_;
};

}  // namespace tutti::detail
