#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tutti::detail {

/// Memory of the host that all GPUs of this process may read and write while the processor does something else, with a
/// word for which a stream can wait.
///
/// It comes from a store of this process, which never gives it back to the driver: freeing it would wait for all that
/// runs on the GPU, and might be asked for where the driver must not be called. Threading: take() and the destructor
/// from any thread.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  /// At least `bytes` bytes, aligned to a cache line. Needs a current context, and pins in the primary one of its
  /// device. Throws Error{system}.
  static PinnedMemory take(std::size_t bytes);
  PinnedMemory(PinnedMemory&& other) noexcept;
  PinnedMemory& operator=(PinnedMemory&& other) noexcept;
  ~PinnedMemory();

  std::byte* data() const;
  /// 0 when it was taken.
  std::atomic<std::uint64_t>& word() const;

  /// A piece of memory.
  struct Block;

 private:
  explicit PinnedMemory(Block* block) : block_(block) {}
  Block* block_ = nullptr;
};

}  // namespace tutti::detail
