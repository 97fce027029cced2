#pragma once

#include <cstddef>
#include <utility>

#include "tutti/allocate.h"
#include "tutti/communicator.h"
#include "tutti/export.h"
#include "tutti/gpu.h"
#include "tutti/types.h"

namespace tutti::detail {
inline namespace TUTTI_ABI {

class TUTTI_API DeviceAllocator {
 public:
  static Allocated allocate(Communicator& comm, std::size_t count, std::size_t element_size);
  static Allocated register_memory(Communicator& comm, void* data, std::size_t count, std::size_t element_size);
  static void deregister_memory(Communicator& comm, Allocated registered);
};

}  // namespace TUTTI_ABI
}  // namespace tutti::detail

namespace tutti::gpu {
inline namespace TUTTI_ABI {

/// This rank's elements in memory of its GPU that the kernels of all ranks can use: see allocate().
///
/// Ownership: movable, not copyable; one that was moved from is empty. It may be destroyed while calls with it are on
///            their way, and may outlive the communicator. The memory exists until all ranks have let go of it.
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
/// Effect:    in all collectives but scans and _v calls. The result has the same bits as without.
/// Agreement: all ranks of `comm` call it, with the same count (Error{mismatch}), in the same order as their other
///            collectives. In a call, a buffer is part of the same allocation on all ranks, and begins at the same
///            offset in it, or is part of none on all ranks (Error{mismatch}).
/// Memory:    whole pages of the driver, of 2 MiB. It is ordinary memory where ranks cannot use each other's: the log
///            (TUTTI_DEBUG=INFO) says why.
/// Failure:   as any collective. After a call has failed, peers may go on writing to its buffers for a moment.
template <Element T>
Array<T> allocate(Communicator& comm, std::size_t count) {
  return {detail::DeviceAllocator::allocate(comm, count, sizeof(T)), count};
}

/// What register_memory() has done. Movable, not copyable.
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
  friend void deregister_memory(Communicator& comm, Registration registration);
  explicit Registration(detail::Allocated registered) : registered_(std::move(registered)) {}

  detail::Allocated registered_;
};

/// Lets the other ranks use memory of the program's own, as if it came from allocate(). The same holds for calls.
///
/// Memory:    in one allocation of cudaMalloc() or cuMemAlloc(), or of cuMemCreate() with a file descriptor as its
///            handle; what a framework hands out lies in such ones. No part of it is registered already.
/// Agreement: as for allocate(). Ranks register equally many elements (Error{mismatch}), where they like.
/// Ownership: the memory stays the program's, and exists until deregister_memory() has returned. Where it was freed too
///            early, the next call with it is Error{invalid_argument}, whatever is at its address by then. Destroying
///            the object ends the use in later calls of this rank, but other ranks may keep the memory open.
template <Element T>
Registration register_memory(Communicator& comm, Span<T> memory) {
  return Registration{detail::DeviceAllocator::register_memory(
      comm, const_cast<void*>(static_cast<const void*>(memory.data())), memory.size(), sizeof(T))};
}

/// All ranks call it. When it returns, no rank uses the memory any more, and it may be freed. Waits for all calls of
/// `comm` on device memory that are on their way, for no longer than its timeout (Error{timeout}).
inline void deregister_memory(Communicator& comm, Registration registration) {
  detail::DeviceAllocator::deregister_memory(comm, std::move(registration.registered_));
}

}  // namespace TUTTI_ABI
}  // namespace tutti::gpu
