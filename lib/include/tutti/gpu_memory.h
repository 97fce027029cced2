#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "tutti/allocate.h"
#include "tutti/communicator.h"
#include "tutti/export.h"
#include "tutti/gpu.h"
#include "tutti/types.h"

namespace tutti::detail {

struct DeviceRegistration;

inline namespace TUTTI_ABI {

/// What the library knows of registered memory, and whether other ranks see it.
struct Registered {
  std::shared_ptr<DeviceRegistration> registration;
  bool shared = false;
};

class TUTTI_API DeviceAllocator {
 public:
  static Allocated allocate(Communicator& comm, std::size_t count, std::size_t element_size);
  static Registered register_memory(Communicator& comm, void* data, std::size_t count, std::size_t element_size);
  /// Empties `registered`, unless it throws before anything has changed.
  static void deregister_memory(Communicator& comm, Registered& registered);
};

}  // namespace TUTTI_ABI
}  // namespace tutti::detail

namespace tutti::gpu {
inline namespace TUTTI_ABI {

/// This rank's elements in memory of its GPU that the kernels of all ranks can use: see allocate().
///
/// Ownership: movable, not copyable; one that was moved from is empty. It may be destroyed at any time by any thread,
///            also while calls with it are on their way, and may outlive the communicator. Destroying it is local. The
///            driver gets the memory back at the next allocate(), register_memory() or deregister_memory() of the
///            communicator in which none of its calls is on its way, or when the communicator ends, and never while
///            another rank has it open, or a graph has a call with it. Memory that is not shared goes back at once, by
///            cuMemFree(), which waits for all streams of the GPU.
/// Graphs:    a graph that has a call with it keeps it, and that of the other ranks. Launches go on using the memory of
///            all ranks, also after the end of the communicator: each rank destroys its graphs before any rank uses its
///            part for something else.
template <Element T>
class [[nodiscard]] Array {
 public:
  Array(Array&& other) noexcept
      : allocated_(std::exchange(other.allocated_, {})), size_(std::exchange(other.size_, 0)) {}
  Array& operator=(Array&& other) noexcept {
    allocated_ = std::exchange(other.allocated_, {});
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  T* data() const noexcept { return reinterpret_cast<T*>(allocated_.memory.get()); }
  std::size_t size() const noexcept { return size_; }
  Span<T> span() const noexcept { return {data(), size_}; }
  /// The other ranks can use it. False: it is ordinary memory of the GPU.
  bool is_shared() const noexcept { return allocated_.shared; }

 private:
  template <Element U>
  friend Array<U> allocate(Communicator& comm, std::size_t count);
  Array(detail::Allocated allocated, std::size_t size) : allocated_(std::move(allocated)), size_(size) {}

  detail::Allocated allocated_;
  std::size_t size_ = 0;
};

/// `count` elements for each rank in the memory of its GPU, with any content. Collectives of `comm` whose ranks use
/// each other's memory (docs/gpu.md) then need no copies.
///
///     auto gradients = tutti::gpu::allocate<float>(comm, count);
///     comm.all_reduce(gradients.span(), tutti::sum, {.stream = stream});
///
/// GPU:       that of the communicator's calls on device memory; else that of the thread's current context, or the only
///            one of the machine.
/// Effect:    in collectives with `direct` or `direct_two_shot`, which run where ranks use each other's memory unless
///            the call, TUTTI_ALGO or a tuning table names another algorithm. _v calls, scans, user-defined ops and
///            premul_sum run as with ordinary memory. A buffer that only the root gives (the output of reduce and
///            gather, the input of scatter) is copied if other ranks use it. The result has the same bits as with
///            `direct`.
/// Agreement: all ranks of `comm` call it, with the same count (Error{mismatch}), in the same order as their other
///            collectives. In a call, a buffer is part of the same allocation on all ranks, and begins at the same
///            offset in it, or is part of none on all ranks (Error{mismatch}). The buffer of one part of all_gather
///            and reduce_scatter may lie in place instead, on all ranks: then the buffer of all parts begins at the
///            same offset.
/// Memory:    whole pages of the driver, of 2 MiB. It is ordinary memory where ranks cannot use each other's: the log
///            (TUTTI_DEBUG=INFO) says why.
/// Threading: one thread of a rank at a time calls it for a communicator, as for any collective.
/// Failure:   as any collective. After a call has failed, peers may go on writing to its buffers for a moment.
template <Element T>
Array<T> allocate(Communicator& comm, std::size_t count) {
  return {detail::DeviceAllocator::allocate(comm, count, sizeof(T)), count};
}

/// What register_memory() has done.
///
/// Ownership: movable, not copyable; one that was moved from, or deregistered, is empty. It does not own the memory.
///            Destroying it, or moving another one to it, is local: later calls of this rank do not count the memory as
///            registered, so that all ranks do so before the next call with it (else Error{mismatch}). Other ranks keep
///            it open until they have ended the communicator, and graphs that have calls with it keep it open longer:
///            it may only be freed when all ranks have done so, and destroyed those graphs.
///            One that outlives its communicator has nothing left to do, and may be destroyed at any time.
class [[nodiscard]] Registration {
 public:
  Registration(Registration&& other) noexcept : registered_(std::exchange(other.registered_, {})) {}
  Registration& operator=(Registration&& other) noexcept {
    registered_ = std::exchange(other.registered_, {});
    return *this;
  }
  /// The other ranks can use the memory. False: it is like any other, and the log says why.
  bool is_shared() const noexcept { return registered_.shared; }

 private:
  template <Element T>
  friend Registration register_memory(Communicator& comm, Span<T> memory);
  friend void deregister_memory(Communicator& comm, Registration&& registration);
  explicit Registration(detail::Registered registered) : registered_(std::move(registered)) {}

  detail::Registered registered_;
};

/// Lets the other ranks use memory of the program's own, as if it came from allocate(). The same holds for calls, whose
/// buffers may be any parts of it. A buffer that lies in it in part only is like any other.
///
/// Memory:    in one allocation of cudaMalloc() or cuMemAlloc(), or of cuMemCreate() with a file descriptor as its
///            handle; what a framework hands out lies in such ones. No part of it is registered already.
/// Agreement: as for allocate(). Ranks register equally many elements (Error{mismatch}), where they like.
/// Ownership: the memory stays the program's, and exists until deregister_memory() has returned, or all ranks have
///            ended the communicator, and each rank has destroyed its graphs that have calls with it, after the last
///            launch. Else launches of other ranks read and write what is there by then. Where it was freed too early,
///            the next call with it is Error{invalid_argument} on that rank, whatever is at its address by then.
/// Errors:    a rank whose memory cannot be registered, since it is empty, of the host, or registered in part, gets
///            Error{invalid_argument}, and all others Error{mismatch}. Nothing has changed then, and ranks may go on.
/// Threading, failure: as allocate().
template <Element T>
Registration register_memory(Communicator& comm, Span<T> memory) {
  return Registration{detail::DeviceAllocator::register_memory(
      comm, const_cast<void*>(static_cast<const void*>(memory.data())), memory.size(), sizeof(T))};
}

/// Ends a registration. When it returns, no rank uses the memory any more, or has it open, and it may be freed.
///
/// Agreement: all ranks call it, for what they registered together, in the same order as their other collectives.
/// Effect:    waits for all calls of `comm` on device memory that are on their way. Results are there afterwards.
/// Errors:    Error{invalid_argument} if `registration` is empty (moved from, or deregistered already) or belongs to
///            another communicator, or if a graph has a call with the memory; Error{mismatch} on all others then, and
///            on all if ranks give different ones; Error{timeout} if calls have not come to an end within the timeout
///            of `comm`. After any of these, the same on all ranks, all is as before, `registration` too, and the ranks
///            may go on, and try again.
/// Failure:   else as any collective. `registration` may be empty then, and the memory exist until all ranks have ended
///            the communicator.
/// Threading: as allocate(). No other thread begins a call with the memory.
inline void deregister_memory(Communicator& comm, Registration&& registration) {
  detail::DeviceAllocator::deregister_memory(comm, registration.registered_);
}

}  // namespace TUTTI_ABI
}  // namespace tutti::gpu
