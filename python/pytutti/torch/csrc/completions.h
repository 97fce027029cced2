#pragma once

#include <tutti/c.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <span>

namespace tutti_torch {

/// Threads that act when an operation is done though nobody waits for it: they complete futures, and let go of tensors.
///
/// That is not done by the thread that finishes the operation, since it drives the communicator: a callback of a future
/// may call Python, start other operations, and wait for them. For that reason there is always another thread when one
/// is in a callback. They end with the process, in stop().
class Completions {
 public:
  using Action = std::function<void()>;

  /// They belong to the process, and are never destroyed, since operations may end after main(). A child of fork() has
  /// its own, since it has none of the threads.
  static Completions& all();

  /// Runs `action` on one of the threads when all of `works` are done. It must not throw.
  void when_done(std::span<tutti_work* const> works, Action action);
  /// Calls `wait`, soon, on one of the threads, which waits for an operation for a short time: so it begins at once,
  /// and not when the library's own helper sees that nobody waits.
  void drive(Action wait);
  /// Ends the threads that are not in an action; actions that come later are dropped, and what they own is kept.
  void stop() noexcept;

 private:
  Completions();
  void push(Action* action) noexcept;
  void need_thread() noexcept;
  bool start(void (Completions::*body)() noexcept) noexcept;
  void watch() noexcept;
  void run() noexcept;
  void drive_all() noexcept;

  static std::atomic<Completions*> all_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable ends_;
  std::deque<Action*> due_;
  std::deque<Action> to_drive_;
  bool driving_ = false;  // one thread does it
  int threads_ = 0;
  int idle_ = 0;
  std::uint64_t begun_ = 0;  // actions
  bool watching_ = false;    // one thread does it
  bool stopping_ = false;
};

}  // namespace tutti_torch
