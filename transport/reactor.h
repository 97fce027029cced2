#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace tutti::transport {

/// Where a rank sleeps: file descriptors of all its transports, watched together. Asio inside.
///
/// Threading: one thread at a time, but interrupt() may come from anywhere.
class Reactor {
 public:
  using Clock = std::chrono::steady_clock;

  /// Throws Error{system}.
  Reactor();
  ~Reactor();
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  /// Watches `descriptor` (not owned, must be unwatched before it is closed). `readable` runs in poll() or sleep() when
  /// it can be read or has hung up; level-triggered, so it must read or unwatch.
  void watch(int descriptor, std::function<void()> readable);
  /// Calls `writable` once in poll() or sleep(), when `descriptor` can be written. Where it is not watched, it is from
  /// now on, but not for reading, and must be unwatched, too.
  void wait_writable(int descriptor, std::function<void()> writable);
  void unwatch(int descriptor);

  /// Runs what is ready, without blocking. True when something ran.
  bool poll();
  /// Blocks until something is ready, interrupt() is called, or the deadline; runs what is ready.
  void sleep(Clock::time_point deadline);
  /// The next sleep() ends by `time`, so that its caller can try something again then.
  void wake_by(Clock::time_point time);
  /// Ends a sleep() under way, or makes the next one return at once.
  void interrupt();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::transport
