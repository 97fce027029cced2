// The memory has a head, the places' records, and the places, which begin on a page boundary.

#include "transport/shm/pool_chunk.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <new>

#include "lib/base/memory_units.h"

namespace tutti::transport {
/// The users of a place, in one word so that it changes atomically. `number` counts the groups that have used the
/// place: a rank that read the name when it was another group's cannot enter.
struct PoolChunk::Uses {
  std::uint32_t number = 0;
  std::uint16_t to_come = 0;
  std::uint16_t present = 0;

  static Uses of(std::uint64_t word) {
    return {static_cast<std::uint32_t>(word >> 32), static_cast<std::uint16_t>(word >> 16),
            static_cast<std::uint16_t>(word)};
  }
  std::uint64_t word() const { return std::uint64_t{number} << 32 | std::uint64_t{to_come} << 16 | present; }
  bool none() const { return to_come == 0 && present == 0; }
};

struct PoolChunk::Place {
  std::atomic<Channel> name{0};
  std::atomic<std::uint64_t> uses{0};
  std::atomic<std::uint32_t> is_kept{0};  // free, and still reserved
  std::uint32_t pages = 0;                // of its memory that are reserved; 0: all that it may use
};

struct alignas(64) PoolChunk::Head {
  std::uint64_t places = 0;
  std::uint64_t place_bytes = 0;
  std::atomic<std::uint64_t> kept{0};  // bytes of places that are free and still reserved
  alignas(64) std::atomic<std::uint32_t> waiting{0};
};

std::size_t PoolChunk::bytes_before_places(std::size_t places) {
  return whole_pages(sizeof(Head) + places * sizeof(Place));
}

PoolChunk::PoolChunk(SharedMemory memory, Descriptor descriptor, std::size_t places, std::size_t place_bytes)
    : memory_(std::move(memory)), descriptor_(std::move(descriptor)), places_(places), place_bytes_(place_bytes) {}

std::shared_ptr<PoolChunk> PoolChunk::make(std::size_t places, std::size_t place_bytes) {
  const std::size_t before = bytes_before_places(places);
  NewMemory made = make_memory("tutti-board", before + places * place_bytes, before);
  auto* const head = ::new (made.memory.get()) Head;  // the rest is zero, which is its initial state
  head->places = places;
  head->place_bytes = place_bytes;
  std::shared_ptr<PoolChunk> chunk{
      new PoolChunk(std::move(made.memory), std::move(made.descriptor), places, place_bytes)};
  chunk->reserved_.resize(places);
  return chunk;
}

std::variant<std::shared_ptr<PoolChunk>, std::string> PoolChunk::map(const Descriptor& descriptor) {
  struct ::stat status {};
  if (::fstat(descriptor.get(), &status) != 0) return fmt::format("no descriptor: {}", std::strerror(errno));
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size < page_bytes) return fmt::format("{} bytes are too few", size);
  auto mapped = map_memory(descriptor, size);
  if (auto* const trouble = std::get_if<std::string>(&mapped)) return std::move(*trouble);
  auto& memory = std::get<SharedMemory>(mapped);
  const auto* const head = std::launder(reinterpret_cast<const Head*>(memory.get()));
  const std::size_t places = head->places;
  const std::size_t place_bytes = head->place_bytes;
  const bool is_one = std::has_single_bit(places) && places >= places_in_bucket && places <= most_places &&
                      std::has_single_bit(place_bytes) && place_bytes >= page_bytes && place_bytes <= size / places;
  if (!is_one || bytes_before_places(places) + places * place_bytes != size)
    return fmt::format("{} places of {} bytes do not fill {} bytes", places, place_bytes, size);
  std::shared_ptr<PoolChunk> chunk{new PoolChunk(std::move(memory), Descriptor{}, places, place_bytes)};
  chunk->inode_ = status.st_ino;
  return chunk;
}

/// All memfds are files of one file system in the kernel, so the inode identifies them.
bool PoolChunk::is_in(const Descriptor& descriptor) const noexcept {
  struct ::stat status {};
  return ::fstat(descriptor.get(), &status) == 0 && status.st_ino == inode_;
}

// ---- Finding ---------------------------------------------------------------------------------------------------

PoolChunk::Head& PoolChunk::head() const noexcept { return *std::launder(reinterpret_cast<Head*>(memory_.get())); }

PoolChunk::Place& PoolChunk::place(std::size_t index) const noexcept {
  return std::launder(reinterpret_cast<Place*>(memory_.get() + sizeof(Head)))[index];
}

std::byte* PoolChunk::memory_of(std::size_t index) const noexcept {
  return memory_.get() + bytes_before_places(places_) + index * place_bytes_;
}

/// Index of its first place.
std::size_t PoolChunk::bucket(Channel name) const noexcept {
  const std::uint64_t spread = name * 0x9e3779b97f4a7c15;  // odd, so names stay distinct; high bits depend on all
  return (spread >> 32) % (places_ / places_in_bucket) * places_in_bucket;
}

std::optional<std::size_t> PoolChunk::free_place(Channel name) const noexcept {
  const std::size_t first = bucket(name);
  std::optional<std::size_t> found;
  for (std::size_t index = first; index < first + places_in_bucket; ++index) {
    if (!Uses::of(place(index).uses.load(std::memory_order_acquire)).none()) continue;
    if (place(index).is_kept.load(std::memory_order_relaxed) != 0) return index;  // is reserved already
    if (!found) found = index;
  }
  return found;
}

std::optional<std::size_t> PoolChunk::find(Channel name) const noexcept {
  const std::size_t first = bucket(name);
  for (std::size_t index = first; index < first + places_in_bucket; ++index)
    if (place(index).name.load(std::memory_order_seq_cst) == name) return index;
  return std::nullopt;
}

// ---- Giving and leaving ----------------------------------------------------------------------------------------

std::shared_ptr<std::byte> PoolChunk::give(Channel name, const MemoryNeed& need, std::size_t users) {
  const std::size_t index = free_place(name).value();
  Place& given = place(index);
  clear(index, need);
  given.pages = need.reserved < need.bytes ? static_cast<std::uint32_t>(reserved_[index] / page_bytes) : 0;
  given.name.store(0, std::memory_order_release);
  const std::uint32_t number = Uses::of(given.uses.load(std::memory_order_relaxed)).number + 1;
  given.uses.store(Uses{number, static_cast<std::uint16_t>(users - 1), 1}.word(), std::memory_order_release);
  given.name.store(name, std::memory_order_seq_cst);
  return held(index);
}

/// The place is as it was if this throws: it may still be kept, and dirty.
void PoolChunk::clear(std::size_t index, const MemoryNeed& need) {
  Place& given = place(index);
  const bool was_kept = given.is_kept.load(std::memory_order_acquire) != 0;
  std::size_t& reserved = reserved_[index];
  if (!was_kept) reserved = 0;
  const std::size_t bytes = whole_pages(need.reserved);
  if (bytes > reserved) {
    const std::size_t offset = bytes_before_places(places_) + index * place_bytes_;
    reserve(descriptor_, offset + reserved, bytes - reserved);
    reserved = bytes;
  }
  if (was_kept) {
    given.is_kept.store(0, std::memory_order_relaxed);
    head().kept.fetch_sub(place_bytes_);
  }
  // The last group may have written beyond what was reserved for it.
  if (was_kept) std::fill_n(memory_of(index), need.cleared, std::byte{0});
}

std::shared_ptr<std::byte> PoolChunk::held(std::size_t index) {
  return {memory_of(index), [chunk = shared_from_this(), index](std::byte*) { chunk->leave(index); }};
}

std::shared_ptr<std::byte> PoolChunk::enter(Channel name) noexcept {
  const auto index = find(name);
  if (!index) return nullptr;
  Place& found = place(*index);
  std::uint64_t word = found.uses.load(std::memory_order_acquire);
  for (;;) {
    Uses uses = Uses::of(word);
    if (uses.to_come == 0 || found.name.load(std::memory_order_acquire) != name) return nullptr;
    --uses.to_come;
    ++uses.present;
    if (found.uses.compare_exchange_weak(word, uses.word(), std::memory_order_acq_rel, std::memory_order_acquire))
      return held(*index);
  }
}

/// The last user releases the memory while the place still counts as used.
void PoolChunk::leave(std::size_t index) noexcept {
  Place& left = place(index);
  std::uint64_t word = left.uses.load(std::memory_order_acquire);
  for (;;) {
    Uses uses = Uses::of(word);
    if (uses.present == 0) return;  // only if a process wrote there that must not
    if (uses.present == 1 && uses.to_come == 0) return free(index);
    --uses.present;
    if (left.uses.compare_exchange_weak(word, uses.word(), std::memory_order_acq_rel, std::memory_order_acquire))
      return;
  }
}

void PoolChunk::free(std::size_t index) noexcept {
  Place& left = place(index);
  // What the system does not take back is kept, too, and cleared for the next group.
  const bool is_kept = head().kept.fetch_add(place_bytes_) < most_kept || !release(memory_of(index), place_bytes_);
  if (!is_kept) head().kept.fetch_sub(place_bytes_);
  const std::size_t reserved = left.pages * page_bytes;
  if (is_kept && reserved > 0 && reserved < place_bytes_)
    static_cast<void>(release(memory_of(index) + reserved, place_bytes_ - reserved));
  left.is_kept.store(is_kept ? 1 : 0, std::memory_order_relaxed);
  const std::uint32_t number = Uses::of(left.uses.load(std::memory_order_relaxed)).number;
  left.uses.store(Uses{number}.word(), std::memory_order_release);
}

bool PoolChunk::is_incomplete(Channel name) const noexcept {
  const auto index = find(name);
  return index && Uses::of(place(*index).uses.load(std::memory_order_acquire)).to_come > 0;
}

void PoolChunk::withdraw(Channel name) noexcept {
  const auto index = find(name);
  if (!index) return;
  Place& given = place(*index);
  std::uint64_t word = given.uses.load(std::memory_order_acquire);
  for (;;) {
    Uses uses = Uses::of(word);
    if (uses.to_come == 0) return;
    // If members are present, the last of them frees the place when it leaves; otherwise this rank does.
    uses = {uses.number, 0, std::max<std::uint16_t>(uses.present, 1)};
    const bool is_last = Uses::of(word).present == 0;
    if (!given.uses.compare_exchange_weak(word, uses.word(), std::memory_order_acq_rel, std::memory_order_acquire))
      continue;
    if (is_last) free(*index);
    return;
  }
}

// ---- Waiting for one -------------------------------------------------------------------------------------------

bool PoolChunk::is_awaited() const noexcept { return head().waiting.load(std::memory_order_seq_cst) != 0; }

void PoolChunk::begin_to_wait() noexcept { head().waiting.fetch_add(1, std::memory_order_seq_cst); }

void PoolChunk::end_waiting() noexcept { head().waiting.fetch_sub(1, std::memory_order_relaxed); }

}  // namespace tutti::transport
