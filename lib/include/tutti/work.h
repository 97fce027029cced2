#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <functional>
#include <ranges>
#include <span>
#include <utility>
#include <vector>

#include "tutti/error.h"
#include "tutti/export.h"

namespace tutti {
inline namespace TUTTI_ABI {

/// The message that a receive got, or that probe() found.
struct MessageStatus {
  int source = -1;
  int tag = -1;
  /// Elements. Where probe() found elements that are not Reducible, such as structs, it is their bytes.
  std::size_t count = 0;
};

}  // namespace TUTTI_ABI
}  // namespace tutti

namespace tutti::detail {
class Pending;  // one operation on its way, owned by the engine and by every handle that names it
}

namespace tutti {
inline namespace TUTTI_ABI {

/// An operation that has been started; the common base of Work and Persistent.
///
/// Until the operation is done, keep its buffers alive and do not use them. Dropping a handle does not cancel anything.
/// A handle that was moved from, or has started nothing, counts as done, without an error.
/// Threading: any thread may call, on a Work several at once, on a Persistent one at a time. A thread that waits drives
///            the operation; while none does, it goes on by itself. Nobody may move what another thread uses.
/// Failure:   wait() and wait_for() throw what the operation failed with, each time. In a child of fork(),
///            Error{invalid_argument}.
class TUTTI_API Handle {
 public:
  /// Returns when the operation is done; its own deadline bounds that.
  void wait();
  /// The same for at most `limit`; false: still running.
  bool wait_for(std::chrono::nanoseconds limit);
  /// For a call on device memory: what is enqueued in `stream`, a CUstream or cudaStream_t, from now on comes after the
  /// call, and after what is in the stream of the call already. Does not wait here: it records an event in the stream
  /// of the call, in the call's context, and lets `stream` wait for it. After the call is done it does nothing.
  /// Context:   a default stream is the one of the thread's current context, or, where there is none, of the call's.
  ///            The current context is the same afterwards.
  /// Threading: any thread, except after a call in a thread's own default stream (cudaStreamPerThread), which only that
  ///            thread can name: Error{invalid_argument} in others.
  /// Failure:   throws what the call has failed with, and Error{invalid_argument} for a call on host memory that is not
  ///            done.
  void wait_on(void* stream);
  /// True once finished or failed; turns true by itself, without anybody waiting.
  bool done() const;
  /// Null while running and after success; otherwise what went wrong, owned by the handle.
  const Error* error() const;
  /// After a receive: who sent the message, with which tag, and how long it was. With Error{truncated} it was dropped.
  /// Before its end, and after anything but a receive, it is that of no message: MessageStatus{}, without an error.
  MessageStatus status() const;
  /// Calls `next(error())` exactly once: now if done, else on the thread that finishes the operation. That is any
  /// thread which waits in a call of this rank, or one of the library's own.
  /// In a process that has made calls on device memory it may also be a thread of the GPU's driver, after a call on any
  /// memory, and a stream waits for `next` then: so `next` must not call CUDA, nor destroy what does, such as a
  /// communicator. No context of the program's is current there.
  /// `next` must be short and must not throw. It may start calls, and let go of communicators. Calls that wait,
  /// iprobe() and those that make a communicator throw Error{invalid_argument} in it, if its thread would have to end
  /// the wait.
  void then(std::function<void(const Error*)> next);

 protected:
  Handle() = default;
  explicit Handle(detail::Pending* pending) noexcept : pending_(pending) {}  // adopts one reference
  Handle(Handle&& other) noexcept
      : pending_(std::exchange(other.pending_, nullptr)), unwaited_(std::exchange(other.unwaited_, false)) {}
  Handle& operator=(Handle&& other) noexcept {
    Handle moved{std::move(other)};  // leaves with what this had
    std::swap(pending_, moved.pending_);
    std::swap(unwaited_, moved.unwaited_);
    return *this;
  }
  ~Handle() { drop(); }
  void drop() noexcept;

 private:
  friend class detail::Internals;
  detail::Pending* pending_ = nullptr;
  bool unwaited_ = false;  // of a Persistent: started since the last wait
};

/// Handle of one operation: what `comm.async().all_reduce(...)`, isend() and irecv() return.
class [[nodiscard]] TUTTI_API Work : public Handle {
 public:
  Work() = default;

 private:
  friend class detail::Internals;
  explicit Work(detail::Pending* pending) noexcept : Handle(pending) {}
};

}  // namespace TUTTI_ABI
}  // namespace tutti

namespace tutti::detail {
inline namespace TUTTI_ABI {
TUTTI_API void wait_all(std::span<Handle* const> handles);
TUTTI_API std::size_t wait_any(std::span<Handle* const> handles);

template <class R>
std::vector<Handle*> handles_of(R& range) {
  std::vector<Handle*> handles;
  for (Handle& handle : range) handles.push_back(&handle);
  return handles;
}
}  // namespace TUTTI_ABI
}  // namespace tutti::detail

namespace tutti {
inline namespace TUTTI_ABI {

/// A range of Work or of Persistent.
template <class R>
concept Handles = std::ranges::input_range<R> && std::derived_from<std::ranges::range_value_t<R>, Handle>;

/// Returns when all are done; then throws the Error of the first of them that failed.
template <Handles R>
void wait_all(R&& handles) {
  detail::wait_all(detail::handles_of(handles));
}

/// Waits until at least one is done, and returns its index, the lowest if there are several. Its error() or wait()
/// tells whether it failed. Remove it from the range before the next wait_any(). All must belong to communicators from
/// one connect() or run_threads(), and there must be at least one; else Error{invalid_argument}. If the wait hook of
/// a program in C or Python (tutti_set_wait_hook()) ends it, all these communicators fail.
template <Handles R>
std::size_t wait_any(R&& handles) {
  return detail::wait_any(detail::handles_of(handles));
}

}  // namespace TUTTI_ABI
}  // namespace tutti
