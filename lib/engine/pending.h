#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/clocks.h"
#include "tutti/error.h"
#include "tutti/work.h"

namespace tutti::detail {

class Engine;
using Clock = std::chrono::steady_clock;

/// A running operation, to which a Work points.
///
/// Ownership: reference counted. The engine holds one reference while the operation runs, and each Work one.
/// Threading: done(), error() and then() from any thread; the rest on the thread that owns the engine.
class Pending {
 public:
  explicit Pending(std::shared_ptr<Engine> engine);
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;
  virtual ~Pending();

  void retain() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept;

  bool done() const noexcept { return state_.load(std::memory_order_acquire) == State::done; }
  /// Whether it is done, or was abandoned.
  bool over() const noexcept { return state_.load(std::memory_order_acquire) != State::running; }
  const Error* error() const noexcept { return done() && error_ ? &*error_ : nullptr; }
  void then(std::function<void(const Error*)> next);
  Engine& engine() const { return *engine_; }

  /// Begins the operation, which may finish at once.
  virtual void start() noexcept = 0;
  /// The time given to Engine::look_at() has come. It may set another one.
  virtual void expire() noexcept = 0;
  /// The processes of these global ranks have ended, and this operation may be waiting for one of them.
  virtual void departed(std::span<const int> ranks) noexcept = 0;
  /// The engine has stopped: no thread drives it any more, so that expire() is not called.
  virtual void engine_stops() noexcept {}
  /// Ends everything on its communicator, on all ranks. Any thread may call.
  virtual void abort(std::string_view reason) noexcept = 0;

  /// For injected faults: the operation stays as it is, and a thread that waits for it leaves by calling `departure`.
  void abandon(std::function<void()> departure) noexcept;
  /// For a thread that waited until over(): calls the departure if the operation was abandoned.
  void depart_if_abandoned() const {
    if (!done()) departure_();
  }

  /// Runs `completion` after a success, before any thread can see that it is done.
  void before_done(std::function<void()> completion) { completion_ = std::move(completion); }
  /// Ends the operation, once: publishes the outcome and runs the continuations.
  void finish(const Error* error = nullptr) noexcept;

  /// Where a call on device memory does its work; set before the program gets its Work.
  struct OnDevice {
    void* context = nullptr;  ///< null: the call is on host memory
    void* stream = nullptr;
    std::uint64_t id = 0;       ///< of the stream: a default one has another in each context and thread
    std::uint64_t capture = 0;  ///< into which graph; the call is then done at once, and runs when the graph does
  };
  OnDevice on_device;
  MessageStatus status;
  bool asynchronous = false;       ///< no caller waits, so the helper thread must drive
  std::size_t deadline_index = 0;  ///< set by Deadlines

 protected:
  /// No references are left: deletes the object, or keeps it for the next call.
  virtual void recycle() noexcept = 0;
  /// Makes a recycled object new again, with one reference.
  void reset() noexcept;

  std::shared_ptr<Engine> engine_;

 private:
  void run_continuations() noexcept;

  std::atomic<int> references_{1};
  enum class State : std::uint8_t { running, done, abandoned };
  std::atomic<State> state_{State::running};
  std::function<void()> departure_;
  std::function<void()> completion_;
  std::atomic<bool> has_continuations_{false};
  std::optional<Error> error_;
  std::mutex continuations_mutex_;
  std::vector<std::function<void(const Error*)>> continuations_;
};

}  // namespace tutti::detail
