#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <utility>

#include "tutti/error.h"
#include "tutti/export.h"

namespace tutti {

/// What a finished receive found.
struct MessageStatus {
  int source = -1;
  int tag = -1;
  std::size_t count = 0;  ///< elements
};

namespace detail {
class Pending;  // one operation on its way, owned by the engine and by every Work that names it
}

/// Handle of a running operation.
///
/// Buffers of the operation stay yours but must not be touched, and must live, until it is done.
/// Dropping a Work does not cancel anything. Threading: any thread may call; one at a time per object.
class [[nodiscard]] TUTTI_API Work {
 public:
  Work() = default;
  explicit Work(detail::Pending* pending) noexcept : pending_(pending) {}  // adopts one reference
  Work(Work&& other) noexcept : pending_(std::exchange(other.pending_, nullptr)) {}
  Work& operator=(Work&& other) noexcept {
    std::swap(pending_, other.pending_);
    return *this;
  }
  ~Work();

  /// Drives the operation in this thread until it is done; throws its Error if it failed.
  void wait();
  /// The same for at most `limit`; false: still running.
  bool wait_for(std::chrono::nanoseconds limit);
  /// True once finished or failed; turns true by itself, without anybody waiting.
  bool done() const;
  /// Null while running and after success; otherwise what went wrong, owned by the Work.
  const Error* error() const;
  /// For a receive that is done: who sent it, with which tag, how much.
  MessageStatus status() const;
  /// Calls `next(error())` exactly once: now if done, else on the thread that finishes the operation.
  /// `next` must be short, must not throw, must not wait for other work.
  void then(std::function<void(const Error*)> next);

 private:
  detail::Pending* pending_ = nullptr;
};

}  // namespace tutti
