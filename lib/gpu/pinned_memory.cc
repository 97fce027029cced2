#include "lib/gpu/pinned_memory.h"

#include <array>
#include <bit>
#include <map>
#include <mutex>
#include <new>
#include <utility>

#include "lib/base/gpu/context.h"
#include "lib/base/memory_units.h"

namespace tutti::detail {

/// In memory of the program's own, so that it is there if its context has ended.
struct PinnedMemory::Block {
  cuda::KnownContext context{};
  std::byte* memory = nullptr;
  std::atomic<std::uint64_t>* word = nullptr;  // elsewhere, since vectors often have the size of a block
  std::size_t size_class = 0;
  Block* next = nullptr;  // in the store
};

namespace {

constexpr std::size_t least = 64 * 1024;  // of what is pinned at once
using AtomicWord = std::atomic<std::uint64_t>;

/// Of the current context's device, as long as this process lives: the program may destroy other contexts, and with
/// them what is pinned there. A reset of the device ends what is pinned here, too.
cuda::Context primary_context() {
  cuda::Device device = 0;
  cuda::driver().cuCtxGetDevice(&device);
  return cuda::kept_primary_context(device);
}

std::byte* pin(std::size_t bytes) {
  void* memory = nullptr;
  cuda::driver().cuMemHostAlloc(&memory, bytes, cuda::host_portable | cuda::host_mapped);
  return static_cast<std::byte*>(memory);
}

/// Words of blocks, each in a cache line of its own.
class Words {
 public:
  /// In pinned memory of `primary`, which is current.
  AtomicWord* make(cuda::Context primary) {
    const std::lock_guard lock{mutex_};
    Piece& piece = pieces_[cuda::KnownContext{primary}];
    if (piece.left == 0) piece = {pin(least), least};
    auto* const word = new (piece.next) AtomicWord{0};
    piece.next += cache_line;
    piece.left -= cache_line;
    return word;
  }

 private:
  struct Piece {
    std::byte* next = nullptr;
    std::size_t left = 0;
  };
  std::mutex mutex_;
  std::map<cuda::KnownContext, Piece> pieces_;
};

Words& words() {
  static Words& all = *new Words;
  return all;
}

/// Blocks by the number of bits of their size. Twice as much memory as is in use at most, plus what was in use before.
class FreeBlocks {
 public:
  PinnedMemory::Block* take(std::size_t size_class) {
    while (PinnedMemory::Block* const block = pop(size_class)) {
      if (block->context.exists()) return block;  // asks the driver, for which give() must not wait
      delete block;
    }
    return nullptr;
  }
  void give(PinnedMemory::Block* block) noexcept {
    const std::lock_guard lock{mutex_};
    block->next = std::exchange(free_[block->size_class], block);
  }

 private:
  PinnedMemory::Block* pop(std::size_t size_class) {
    const std::lock_guard lock{mutex_};
    PinnedMemory::Block*& first = free_[size_class];
    return first ? std::exchange(first, first->next) : nullptr;
  }

  std::mutex mutex_;
  std::array<PinnedMemory::Block*, 64> free_{};
};

/// Lives as long as the process, since streams may end after the destructors of statics.
FreeBlocks& free_blocks() {
  static FreeBlocks& all = *new FreeBlocks;
  return all;
}

}  // namespace

PinnedMemory PinnedMemory::take(std::size_t bytes) {
  const std::size_t size = std::bit_ceil(std::max(bytes, least));
  const auto size_class = static_cast<std::size_t>(std::countr_zero(size));
  Block* block = free_blocks().take(size_class);
  if (!block) {
    const cuda::Context primary = primary_context();
    const cuda::Current current{primary};
    const cuda::KnowsOfCapture knows;
    AtomicWord* const word = words().make(primary);
    block = new Block{cuda::KnownContext{primary}, pin(size), word, size_class};
  }
  PinnedMemory taken{block};
  taken.word().store(0, std::memory_order_relaxed);
  return taken;
}

PinnedMemory::PinnedMemory(PinnedMemory&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
PinnedMemory& PinnedMemory::operator=(PinnedMemory&& other) noexcept {
  std::swap(block_, other.block_);
  return *this;
}
PinnedMemory::~PinnedMemory() {
  if (block_) free_blocks().give(block_);
}

std::byte* PinnedMemory::data() const { return block_->memory; }
std::atomic<std::uint64_t>& PinnedMemory::word() const { return *block_->word; }

}  // namespace tutti::detail
