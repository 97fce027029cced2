#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace tutti::transport {

/// Where a rank sleeps: it waits for file descriptors of all transports together. Implemented with Asio.
///
/// Threading: one thread at a time, but interrupt() may be called by any thread.
class Reactor {
 public:
  using Clock = std::chrono::steady_clock;

  /// Throws Error{system}.
  Reactor();
  ~Reactor();
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  /// Watches `descriptor` (not owned; unwatch it before closing it). `readable` runs in poll() or sleep() when the
  /// descriptor can be read or has hung up. It is level-triggered, so `readable` must read or unwatch.
  void watch(int descriptor, std::function<void()> readable);
  /// Calls `writable` once in poll() or sleep(), when `descriptor` can be written. A descriptor that is not watched
  /// becomes watched, but not for reading, and must be unwatched as well.
  void wait_writable(int descriptor, std::function<void()> writable);
  void unwatch(int descriptor);
  /// For a watched descriptor that can be read although it is not wanted now: `readable` does not run until wake().
  void rest(int descriptor);
  void wake(int descriptor);

  /// Runs the handlers that are ready, without blocking. True if any ran.
  bool poll();
  /// Blocks until a handler is ready, interrupt() is called, or the deadline; runs the handlers that are ready. False:
  /// it was the deadline.
  bool sleep(Clock::time_point deadline);
  /// The next sleep() ends by `time`, so that its caller can try something again then.
  void wake_by(Clock::time_point time);
  /// Ends a sleep() in progress, or makes the next one return at once.
  void interrupt();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::transport
