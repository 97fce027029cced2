#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "transport/frame.h"
#include "transport/memory/areas.h"
#include "transport/memory/copy_policy.h"
#include "transport/memory/ring_memory.h"
#include "tutti/error.h"

namespace tutti::transport {

/// Which pieces of a message are timed; both ends time the same ones. Where ranks share cores the clock is a system
/// call, which takes a third of the time of such a copy. A few pieces then stand for all (sendrecv of 64 MiB among 8
/// ranks on 2 cores of a Zen 4: 56 ms while every copy was timed, 34 since).
class TimedPieces {
 public:
  /// None.
  TimedPieces() = default;
  /// At most `most`, evenly spread, of a message of `pieces`.
  TimedPieces(std::size_t pieces, std::size_t most) : every_((pieces + most - 1) / most) {}

  /// Whether the next piece is one of them.
  bool next() noexcept {
    if (every_ == 0) return false;
    until_ = (until_ == 0 ? every_ : until_) - 1;
    return until_ == every_ - 1;
  }

 private:
  std::size_t every_ = 0;
  std::size_t until_ = 0;  ///< pieces before the next one
};

/// Those of a message of `length` bytes in a ring of that many areas.
inline TimedPieces timed_pieces(std::uint64_t length, std::size_t areas, bool cores_are_shared) {
  constexpr std::size_t enough = 16;
  const std::size_t pieces = slots_for(length, length, areas);
  return {pieces, cores_are_shared ? enough : pieces};
}

/// The sender's end. Does not own the memory.
class RingWriter {
 public:
  /// `areas`: those between the two ranks, among them those of the ring.
  explicit RingWriter(RingMemory& memory, Areas& areas, const CopyPolicy& copy_policy = {})
      : memory_(&memory),
        areas_(&areas),
        slots_(slots_in_flight(areas.of_own())),
        path_(copy_policy),
        shares_cores_(copy_policy.cores_are_shared),
        clocks_(copy_policy.clocks) {}

  /// How many slots may be in flight.
  std::size_t slots() const noexcept { return slots_; }
  bool full() noexcept { return !has_room(1); }
  /// That many may be filled now.
  bool has_room(std::size_t slots) noexcept {
    if (filled_ - freed_ + slots > slots_) look_at_freed();
    return filled_ - freed_ + slots <= slots_;
  }
  /// Fills the next slot with the first piece of a message, or with a further one. Only if there is room. True: the
  /// receiver sleeps and must be woken.
  [[nodiscard]] bool begin(const FrameWords& frame, std::span<const std::byte> piece) noexcept;
  [[nodiscard]] bool begin(const Frame& frame, std::span<const std::byte> piece) noexcept {
    return begin(words_of(frame), piece);
  }
  [[nodiscard]] bool proceed(std::span<const std::byte> piece) noexcept;
  /// Fills the next slot with the address of a whole message in this process, which the receiver reads until the slot
  /// is free again, that is, until has_freed(filled()). For messages of at least CopyChoice::least_bytes. Otherwise
  /// like begin().
  [[nodiscard]] bool begin_single_copy(const FrameWords& frame, std::span<const std::byte> payload) noexcept;
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
  SlotHead& next() noexcept { return memory_->head_of(filled_); }
  /// Not read for shorter messages, which are not worth a cache line of the receiver's.
  std::uint32_t wishes_about(std::uint64_t length) const noexcept {
    return length < CopyChoice::least_bytes ? 0 : memory_->wishes.load(std::memory_order_relaxed);
  }
  void describe(const FrameWords& frame) noexcept;
  bool publish(AreaName area) noexcept;
  void fetch_next(std::size_t payload) noexcept;
  AreaName fill_area(std::span<const std::byte> piece) noexcept;
  void note(const LongPayload& what) noexcept { std::memcpy(next().payload.data(), &what, sizeof what); }
  void look_at_freed() noexcept;

  RingMemory* memory_;
  Areas* areas_;
  std::size_t slots_;
  StoreChoice path_;
  std::uint64_t filled_ = 0;
  std::uint64_t freed_ = 0;  // last value seen
  std::array<AreaName, slot_count> areas_filled_{};
  std::uint64_t length_ = 0;  // of the current message
  TimedPieces timed_;         // of it
  bool shares_cores_;
  CopyClocks clocks_;
};

/// The receiver's end. Does not own the memory. Trusts nothing that it reads.
class RingReader {
 public:
  RingReader(RingMemory& memory, Areas& areas) : memory_(&memory), areas_(&areas) {}

  /// The next slot is filled. Until then only arm() and disarm() may be called.
  bool ready() const noexcept { return is_flag_of(head().filling.load(std::memory_order_acquire), taken_ + 1); }
  /// Copied before it is checked, since the writer could still change it.
  std::optional<Frame> frame() const noexcept;
  /// The length in the next slot's frame, which is not checked and may change.
  std::uint64_t claimed_length() const noexcept { return head().words.back(); }
  /// The next slot's frame is `frame`.
  bool begins_with(const FrameWords& frame) const noexcept;
  /// The next piece of a message of `length` bytes with `rest` bytes missing.
  std::span<const std::byte> piece(std::uint64_t length, std::uint64_t rest) const noexcept;
  /// The address in the sender's memory of a message of `length` bytes that begins in the next slot; 0: it comes
  /// through slots.
  std::uint64_t single_copy_address(std::uint64_t length) const noexcept;
  /// The time for which the sender has copied the payload into the next slot, if it is longer than `short_bytes`; 0:
  /// not known. Where cores are shared: time of the processor.
  std::chrono::nanoseconds filling_time() const noexcept;
  /// Areas::is_first_use() of the next slot's, for a piece of `bytes` bytes of a message of `length`.
  bool is_first_use(std::uint64_t length, std::size_t bytes) noexcept;
  /// Memory that belongs to the next slot and is unused, since its message uses single copy.
  std::span<std::byte> scratch() const noexcept;
  /// Number of filled slots, from the next one on.
  std::size_t ready_slots() const noexcept;
  void wish(std::uint32_t wishes) noexcept {
    auto& published = memory_->wishes;
    if (published.load(std::memory_order_relaxed) != wishes) published.store(wishes, std::memory_order_relaxed);
  }
  /// Frees the slot. True: the sender sleeps and must be woken.
  [[nodiscard]] bool release() noexcept;
  /// Frees it, and goes on with the next one at once. One who cannot do so after all asks sender_sleeps().
  void go_on() noexcept;
  [[nodiscard]] bool sender_sleeps() noexcept;

  /// Asks to be woken by the next filling; false: it has come already. Call disarm() in any case.
  bool arm() noexcept;
  void disarm() noexcept { memory_->receiver_alarm.store(0, std::memory_order_relaxed); }

 private:
  void give_back() noexcept;
  const SlotHead& head() const noexcept { return memory_->head_of(taken_); }

  LongPayload long_payload() const noexcept {
    LongPayload what{};
    std::memcpy(&what, head().payload.data(), sizeof what);
    return what;
  }
  /// The area of the next slot.
  AreaName area() const noexcept { return seen_from_other(area_in(head().filling.load(std::memory_order_relaxed))); }

  RingMemory* memory_;
  Areas* areas_;
  std::uint64_t taken_ = 0;
};

/// Writes that this side closes, or why it aborts.
void leave(CloseRecord& close_record) noexcept;
void leave(CloseRecord& close_record, const Error& reason) noexcept;
/// The reason for which the other side aborted; nothing if it cannot be decoded.
std::optional<Error> abort_reason(const CloseRecord& close_record);

}  // namespace tutti::transport
