#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "tutti/communicator.h"
#include "tutti/export.h"
#include "tutti/types.h"

namespace tutti::detail {
inline namespace TUTTI_ABI {

/// Bytes of one rank, and whether the others see them.
struct Allocated {
  std::shared_ptr<std::byte> memory;
  bool shared = false;
};

class TUTTI_API Allocator {
 public:
  static Allocated allocate(Communicator& comm, std::size_t count, std::size_t element_size);
};

}  // namespace TUTTI_ABI
}  // namespace tutti::detail

namespace tutti {
inline namespace TUTTI_ABI {

/// This rank's elements in memory that all ranks of a communicator map: see allocate(). A contiguous range, so it can
/// be passed to every call, as a whole or in parts (std::span).
///
/// Ownership: movable, not copyable; one that was moved from is empty. The memory is freed when all ranks have
///            destroyed their arrays. An array may outlive the communicator.
template <Element T>
class [[nodiscard]] SharedArray {
 public:
  SharedArray(SharedArray&& other) noexcept
      : allocated_(std::exchange(other.allocated_, {})), size_(std::exchange(other.size_, 0)) {}
  SharedArray& operator=(SharedArray&& other) noexcept {
    allocated_ = std::exchange(other.allocated_, {});
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  T* data() const noexcept { return reinterpret_cast<T*>(allocated_.memory.get()); }
  std::size_t size() const noexcept { return size_; }
  T* begin() const noexcept { return data(); }
  T* end() const noexcept { return data() + size_; }
  T& operator[](std::size_t index) const noexcept { return data()[index]; }
  /// The memory is shared with the other ranks. False: it is ordinary memory.
  bool is_shared() const noexcept { return allocated_.shared; }

 private:
  template <Element U>
  friend SharedArray<U> allocate(Communicator& comm, std::size_t count);
  SharedArray(detail::Allocated allocated, std::size_t size) : allocated_(std::move(allocated)), size_(size) {}

  detail::Allocated allocated_;
  std::size_t size_ = 0;
};

/// `count` elements for each rank, initially zero. Collectives of `comm` read and write them in place instead of
/// copying them through internal buffers. Between processes of one host this moves the fewest bytes.
///
///     auto gradients = tutti::allocate<float>(comm, count);
///     comm.all_reduce(gradients, tutti::avg);
///
/// Effect:    a call runs in place if these of its buffers are allocated, and the whole vector has at least 16 KiB.
///              - input and output of all_reduce
///              - data of broadcast, and output of scatter
///              - input of reduce, gather, all_gather, reduce_scatter and all_to_all
///            Calls that name another algorithm (also by TUTTI_ALGO), _v calls, scans, user-defined ops, premul_sum,
///            and all_to_all in place run as with ordinary memory. The result has the same bits as with `direct`.
/// Agreement: all ranks of `comm` call it, with the same count (Error{mismatch}), in the same order as their other
///            collectives. In a call, either every rank passes its own part of one allocation, or no rank passes
///            memory of an allocation of `comm` (Error{mismatch}). An all_to_all is in place on every rank, or on none.
/// Memory:    all parts lie in one memfd, made by rank 0, to which the resource limits of containers apply. It is
///            ordinary memory if the ranks share no memory, if there are more than 128 of them, if boards are off
///            (TUTTI_BOARD_BYTES=0 or TUTTI_CHECKSUM=1), or if the system refuses it (with a warning). Linux refuses
///            what exceeds a limit on the size of files, and what it lacks only under strict overcommit: otherwise it
///            ends processes when memory runs out, here or in a container. All of the memory is taken at once.
/// Failure:   after a mismatch of the counts nothing has changed, and the ranks may go on. Otherwise as any collective.
///            After a call has failed, peers may go on writing to its buffers for a moment.
template <Element T>
SharedArray<T> allocate(Communicator& comm, std::size_t count) {
  return {detail::Allocator::allocate(comm, count, sizeof(T)), count};
}

}  // namespace TUTTI_ABI
}  // namespace tutti
