#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <tuple>

#include "transport/frame.h"
#include "transport/memory/copy_policy.h"
#include "tutti/error.h"

namespace tutti::transport {

/// Slots of a ring: messages that can be in flight before the sender waits for the receiver.
inline constexpr std::size_t slot_count = 8;
/// Payload of one slot. A longer message continues in the following slots, of which only the last may be partly filled.
inline constexpr std::size_t slot_bytes = 32 * 1024;
/// Areas for such payloads, used in turn; at most as many as there are slots are in use at once. The others keep a
/// sender from writing where its receiver has just read: a line that is still in the receiver's caches costs a transfer
/// from its core.
inline constexpr std::size_t most_areas = 32;
/// Areas of each ring among `ranks` ranks of a host. With many ranks there are many rings, so each gets fewer.
constexpr std::size_t areas_among(std::size_t ranks) {
  return ranks <= 2 ? most_areas : ranks <= 4 ? most_areas / 2 : slot_count;
}
/// Areas that a message of `length` bytes uses in turn. With more than two ranks some may share a core and its caches.
/// Few areas are best then (4 ranks on 2 cores, all_reduce of 256 KiB, 57 us with 8 areas, 76 with 16), unless a
/// message does not fit into the caches anyway (send and receive of 1 MiB: 213 us with 8, 178 with 16).
///
/// Payloads that are in the ring together never share an area. At most slot_count fillings in a row are in the ring,
/// and two fillings with the same area, modulo slot_count or a multiple of it, are at least slot_count apart.
constexpr std::size_t areas_for(std::uint64_t length, std::size_t areas) {
  return areas == most_areas || length >= std::uint64_t{2} * slot_count * slot_bytes ? areas : slot_count;
}
/// Messages of up to this size lie beside their flag and frame, in neighbouring cache lines of one page.
inline constexpr std::size_t short_bytes = 208;
inline constexpr std::size_t abort_text_bytes = 2760;

/// What one side of a ring has written before it left. `none` means that the process died; `silent` makes fault
/// injection look the same.
enum class Departure : std::uint32_t { none, closed, aborted, silent };

/// One slot's flag, the frame of the message that begins in it, and the payload if it is short. 16 bytes of payload
/// share the cache line of the flag, since the frame's last word, half of which is used, stands before the others.
struct alignas(256) SlotHead {
  /// Number of the filling that the slot holds, from 1, modulo 2^32; written last.
  std::atomic<std::uint32_t> filling{0};
  std::uint32_t history;
  std::array<std::uint64_t, std::tuple_size_v<FrameWords> - 1>
      words;  ///< in the host's byte order, as both ends are on one host
  std::array<std::byte, short_bytes> payload;
};

/// Written once by its side. The other side reads it after that side has left, or to check whether it has.
struct CloseRecord {
  std::atomic<Departure> departure{Departure::none};
  std::uint32_t unused;
  FrameWords frame;  ///< an abort is a message whose payload is `text`
  std::array<std::byte, abort_text_bytes> text;
};

/// A value and its address in the sender's memory, with which a receiver tests whether it can read there.
struct Sample {
  std::uint64_t address;
  std::uint64_t value;
};

/// A directed link in memory that both ends map: one writer, one reader, no locks.
///
/// Every word has one writer, and words of different writers lie two cache lines apart (processors fetch lines in
/// pairs). The only exceptions are the two alarms, which their owner sets and the other side clears.
///
/// The areas for payloads follow it. Their pages are touched when they are first used.
struct alignas(4096) RingMemory {
  static constexpr std::size_t bytes_with(std::size_t areas);
  std::byte* area(std::size_t index) noexcept;

  alignas(128) std::atomic<std::uint64_t> freed{0};           ///< fillings the receiver is done with
  std::atomic<std::uint32_t> wishes{0};                       ///< the receiver's: CopyChoice::wishes()
  alignas(128) std::atomic<std::uint32_t> receiver_alarm{0};  ///< 1: the receiver sleeps, wake it for any filling
  alignas(128) std::atomic<std::uint64_t> sender_alarm{0};    ///< not 0: the sender sleeps until `freed` is this
  Sample sample{};                                            ///< written once, before the first filling
  std::array<SlotHead, slot_count> heads;
  CloseRecord from_sender;
  CloseRecord from_receiver;
};

static_assert(areas_among(2) == most_areas && areas_among(4) % slot_count == 0 && areas_among(5) == slot_count);

/// Ring and areas together, for memory of one process.
template <std::size_t areas>
struct RingWithAreas {
  RingWithAreas() noexcept {}  // NOLINT: not = default, which would clear the payload and so touch all of it

  RingMemory ring;
  std::array<std::byte, areas * slot_bytes> payload;
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free,
              "a lock would live in one process only");
static_assert(sizeof(SlotHead) == 256 && offsetof(SlotHead, payload) % 16 == 0, "views begin on 16-byte boundaries");
static_assert(slot_bytes % 64 == 0, "views but the last are multiples of 64");
static_assert(offsetof(RingMemory, from_sender) < 4096 && sizeof(RingMemory) == 8192,
              "all that a short message needs lies in one page");

constexpr std::size_t RingMemory::bytes_with(std::size_t areas) { return sizeof(RingMemory) + areas * slot_bytes; }
inline std::byte* RingMemory::area(std::size_t index) noexcept {
  return reinterpret_cast<std::byte*>(this) + bytes_with(index);
}

/// Bytes of the slot that comes next in a message with `rest` bytes missing. Both sides follow this rule, so the
/// frame's length is the only one that the receiver relies on.
constexpr std::size_t piece_bytes(std::uint64_t rest) {
  return static_cast<std::size_t>(std::min<std::uint64_t>(rest, slot_bytes));
}

/// The value of a slot's flag for that filling.
constexpr std::uint32_t flag(std::uint64_t filling) { return static_cast<std::uint32_t>(filling); }

/// The sender's end. Does not own the memory.
class RingWriter {
 public:
  /// `areas`: the number of areas of the ring, the same at both ends. `stores`: see StoreChoice.
  explicit RingWriter(RingMemory& memory, std::size_t areas = slot_count, const CopyPolicy& copy_policy = {})
      : memory_(&memory), areas_(areas), path_(copy_policy) {}

  bool full() noexcept { return !has_room(1); }
  /// `slots`, at most slot_count, are free.
  bool has_room(std::size_t slots) noexcept;
  /// Fills the next slot with the first piece of a message, or with a further one. Only if there is room. True: the
  /// receiver sleeps and must be woken.
  [[nodiscard]] bool begin(const Frame& frame, std::span<const std::byte> piece) noexcept;
  [[nodiscard]] bool proceed(std::span<const std::byte> piece) noexcept;
  /// Fills the next slot with the address of a whole message in this process, which the receiver reads until the slot
  /// is free again, that is, until has_freed(filled()). For messages of at least CopyChoice::least_bytes. Otherwise
  /// like begin().
  [[nodiscard]] bool begin_single_copy(const Frame& frame, std::span<const std::byte> payload) noexcept;
  /// The receiver wants single copy for messages of that length.
  bool wants_single_copy(std::uint64_t length) const noexcept;
  /// Slots filled so far.
  std::uint64_t filled() const noexcept { return filled_; }
  /// The receiver has freed the first `fillings` of them.
  bool has_freed(std::uint64_t fillings) noexcept;

  /// Asks to be woken when `slots` slots are free, or when the receiver has freed the first `held_until` fillings (0:
  /// never mind), whichever is first. False: that is so already. Call disarm() in any case.
  bool arm(std::size_t slots, std::uint64_t held_until = 0) noexcept;
  void disarm() noexcept { memory_->sender_alarm.store(0, std::memory_order_relaxed); }

 private:
  SlotHead& next() noexcept { return memory_->heads[filled_ % slot_count]; }
  void describe(const Frame& frame, std::uint64_t single_copy_address) noexcept;
  bool publish() noexcept;

  RingMemory* memory_;
  std::size_t areas_;
  std::size_t areas_in_use_ = slot_count;  // by the current message
  StoreChoice path_;
  std::uint64_t filled_ = 0;
  std::uint64_t freed_ = 0;  // last value seen
};

/// The receiver's end. Does not own the memory. Trusts nothing that it reads.
class RingReader {
 public:
  explicit RingReader(RingMemory& memory, std::size_t areas = slot_count) : memory_(&memory), areas_(areas) {}

  /// The next slot is filled. Until then only arm() and disarm() may be called.
  bool ready() const noexcept { return head().filling.load(std::memory_order_acquire) == flag(taken_ + 1); }
  /// Copied before it is checked, since the writer could still change it.
  std::optional<Frame> frame() const noexcept;
  /// The next slot's frame is `frame`, apart from the number of the operation.
  bool begins_with(const FrameWords& frame) const noexcept;
  /// The next piece of a message of `length` bytes with `rest` bytes missing.
  std::span<const std::byte> piece(std::uint64_t length, std::uint64_t rest) const noexcept;
  /// The address in the sender's memory of a message of `length` bytes that begins in the next slot; 0: it comes
  /// through slots.
  std::uint64_t single_copy_address(std::uint64_t length) const noexcept;
  /// Memory that belongs to the next slot and is unused, since its message uses single copy.
  std::span<std::byte> scratch(std::uint64_t length) const noexcept;
  /// Number of filled slots, from the next one on.
  std::size_t ready_slots() const noexcept;
  void wish(std::uint32_t wishes) noexcept { memory_->wishes.store(wishes, std::memory_order_relaxed); }
  /// Frees the slot. True: the sender sleeps and must be woken.
  [[nodiscard]] bool release() noexcept;

  /// Asks to be woken by the next filling; false: it has come already. Call disarm() in any case.
  bool arm() noexcept;
  void disarm() noexcept { memory_->receiver_alarm.store(0, std::memory_order_relaxed); }

 private:
  const SlotHead& head() const noexcept { return memory_->heads[taken_ % slot_count]; }

  RingMemory* memory_;
  std::size_t areas_;
  std::uint64_t taken_ = 0;
};

/// Writes that this side closes, or why it aborts.
void leave(CloseRecord& close_record) noexcept;
void leave(CloseRecord& close_record, const Error& reason) noexcept;
/// The reason for which the other side aborted; nothing if it cannot be decoded.
std::optional<Error> abort_reason(const CloseRecord& close_record);

}  // namespace tutti::transport
