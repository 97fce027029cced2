#include "lib/gpu/pinned_memory.h"

#include <array>
#include <bit>
#include <mutex>
#include <new>
#include <utility>

#include "lib/base/gpu/context.h"

namespace tutti::detail {

struct alignas(64) PinnedMemory::Block {
  std::atomic<std::uint64_t> word{0};
  std::size_t size_class = 0;
  Block* next = nullptr;  // in the store
};

namespace {

/// Blocks by the number of bits of their size. Twice as much memory as is in use at most, plus what was in use before.
class Store {
 public:
  PinnedMemory::Block* take(std::size_t size_class) {
    const std::lock_guard lock{mutex_};
    PinnedMemory::Block*& first = free_[size_class];
    return first ? std::exchange(first, first->next) : nullptr;
  }
  void give(PinnedMemory::Block* block) noexcept {
    const std::lock_guard lock{mutex_};
    block->next = std::exchange(free_[block->size_class], block);
  }

 private:
  std::mutex mutex_;
  std::array<PinnedMemory::Block*, 64> free_{};
};

/// Lives as long as the process, since streams may end after the destructors of statics.
Store& store() {
  static Store& store = *new Store;
  return store;
}

constexpr std::size_t least = 64 * 1024;

}  // namespace

PinnedMemory PinnedMemory::take(std::size_t bytes) {
  const std::size_t size = std::bit_ceil(std::max(bytes + sizeof(Block), least));
  const auto size_class = static_cast<std::size_t>(std::countr_zero(size));
  Block* block = store().take(size_class);
  if (!block) {
    const cuda::KnowsOfCapture knows;
    void* memory = nullptr;
    cuda::driver().cuMemHostAlloc(&memory, size, cuda::host_portable | cuda::host_mapped);
    block = new (memory) Block;
    block->size_class = size_class;
  }
  block->word.store(0, std::memory_order_relaxed);
  return PinnedMemory{block};
}

PinnedMemory::PinnedMemory(PinnedMemory&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
PinnedMemory& PinnedMemory::operator=(PinnedMemory&& other) noexcept {
  std::swap(block_, other.block_);
  return *this;
}
PinnedMemory::~PinnedMemory() {
  if (block_) store().give(block_);
}

std::byte* PinnedMemory::data() const { return reinterpret_cast<std::byte*>(block_ + 1); }
std::atomic<std::uint64_t>& PinnedMemory::word() const { return block_->word; }

}  // namespace tutti::detail
