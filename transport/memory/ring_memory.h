#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <tuple>

#include "transport/frame.h"

namespace tutti::transport {

/// Slots of a ring.
inline constexpr std::size_t slot_count = 16;
/// Most payload of one slot. A longer message continues in the following slots.
inline constexpr std::size_t slot_bytes = 64 * 1024;
/// Areas for such payloads that a ring brings along; see Areas.
inline constexpr std::size_t most_areas = 64;
/// Those of them for messages of more than long_bytes; the others are for shorter ones. A ring that has no more uses
/// them for all.
inline constexpr std::size_t areas_of_long = 16;
inline constexpr std::uint64_t long_bytes = std::uint64_t{1} << 20;
/// The smallest ring has that many areas.
inline constexpr std::size_t least_areas = 8;
/// A ring among three or four ranks has that many. On two cores they would often wait for each other's cores if theirs
/// held less (scatter of 16 MiB: 1.10 ms, and 1.60 with as much as among more ranks). With 16, the areas of all rings
/// take more of the caches (sendrecv of 512 KiB: 72 us, and 68 with 12; of 1 MiB: 150 and 141).
inline constexpr std::size_t medium_areas = 12;
/// All sizes of rings; the number of areas determines the size of each.
inline constexpr std::array ring_sizes{least_areas, medium_areas, most_areas};
/// Areas of each ring among `ranks` ranks of a host. With many ranks there are many rings, so each gets fewer.
constexpr std::size_t areas_among(std::size_t ranks) {
  return ranks <= 2 ? most_areas : ranks <= 4 ? medium_areas : least_areas;
}
/// Slots that may be in flight in such a ring before the sender waits for the receiver. Two ranks that send each other
/// 1 MiB write all of it before they read (54 us with 8 slots, 50 with 16). Among more ranks that takes more of the
/// shared cache than it saves (all_to_all of 1 MiB among 4: 108 us, and 127).
constexpr std::size_t slots_in_flight(std::size_t areas) { return areas < most_areas ? slot_count / 2 : slot_count; }
/// Bytes of each area of such a ring: with many rings, these and their caches would be too large.
constexpr std::size_t area_bytes(std::size_t areas) { return areas <= least_areas ? slot_bytes / 2 : slot_bytes; }
/// Messages of up to this size lie beside their flag and frame, in neighbouring cache lines of one page.
inline constexpr std::size_t short_bytes = 208;
inline constexpr std::size_t abort_text_bytes = 2760;

/// The order in which the heads of slots are used. If it were regular, the core of the receiver would fetch the next
/// heads, too, and take them away from the sender that is about to write them.
inline constexpr std::array<std::uint8_t, slot_count> head_places{0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15};

/// The name of an area between two ranks: its number in the ring of the rank that uses the name, or in the other one's.
enum class AreaName : std::uint8_t { of_other = 0x80, none = 0xff };
constexpr AreaName own_area(std::size_t number) { return static_cast<AreaName>(number); }
/// The same area as the other rank names it.
constexpr AreaName seen_from_other(AreaName area) {
  return area == AreaName::none ? area : static_cast<AreaName>(static_cast<unsigned>(area) ^ 0x80U);
}

/// What one side of a ring has written before it left. `none` means that the process died; `silent` makes fault
/// injection look the same.
enum class Departure : std::uint32_t { none, closed, aborted, silent };

/// One slot's flag, the frame of the message that begins in it, and the payload if it is short. 16 bytes of payload
/// share the cache line of the flag, since the frame's last word, half of which is used, stands before the others.
struct alignas(256) SlotHead {
  /// Number and area of the filling that the slot holds: flag_of(); written last.
  std::atomic<std::uint32_t> filling{0};
  std::uint32_t history;
  std::array<std::uint64_t, std::tuple_size_v<FrameWords> - 1>
      words;  ///< in the host's byte order, as both ends are on one host
  std::array<std::byte, short_bytes> payload;
};

/// What stands in the place of the payload if that is longer.
struct LongPayload {
  std::uint64_t single_copy_address;  ///< where the message lies in the sender's memory; 0: it comes through slots
  std::uint32_t filling_ns;           ///< time of the sender's copy into this slot; 0: it was not timed
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
  SlotHead& head_of(std::uint64_t filling) noexcept { return heads[head_places[filling % slot_count]]; }
  /// `areas`: how many the ring has.
  std::byte* area(std::size_t index, std::size_t areas) noexcept;

  alignas(128) std::atomic<std::uint64_t> freed{0};           ///< fillings the receiver is done with
  std::array<AreaName, slot_count> returned{};                ///< for each of the last ones: the area in exchange
  std::atomic<std::uint32_t> wishes{0};                       ///< the receiver's: CopyChoice::wishes()
  alignas(128) std::atomic<std::uint32_t> receiver_alarm{0};  ///< 1: the receiver sleeps, wake it for any filling
  alignas(128) std::atomic<std::uint64_t> sender_alarm{0};    ///< not 0: the sender sleeps until `freed` is this
  Sample sample{};                                            ///< written once, before the first filling
  std::array<SlotHead, slot_count> heads;                     ///< by head_of()
  CloseRecord from_sender;
  CloseRecord from_receiver;
};

static_assert(std::ranges::all_of(ring_sizes, [](std::size_t areas) { return slots_in_flight(areas) <= areas; }) &&
                  slots_in_flight(most_areas) <= std::min(areas_of_long, most_areas - areas_of_long),
              "there is an area for each slot in flight");
static_assert(std::ranges::count(ring_sizes, areas_among(2)) == 1 &&
                  std::ranges::count(ring_sizes, areas_among(4)) == 1 &&
                  std::ranges::count(ring_sizes, areas_among(5)) == 1,
              "ranks of a host map each other's rings");

/// Ring and areas together, for memory of one process.
template <std::size_t areas>
struct RingWithAreas {
  RingWithAreas() noexcept {}  // NOLINT: not = default, which would clear the payload and so touch all of it

  RingMemory ring;
  std::array<std::byte, areas * area_bytes(areas)> payload;
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free,
              "a lock would live in one process only");
static_assert(sizeof(SlotHead) == 256 && offsetof(SlotHead, payload) % 16 == 0, "views begin on 16-byte boundaries");
static_assert(slot_bytes % 64 == 0, "views but the last are multiples of 64");
static_assert(offsetof(RingMemory, from_sender) < 8192 && sizeof(RingMemory) == 12288,
              "all that a short message needs lies in two pages");

constexpr std::size_t RingMemory::bytes_with(std::size_t areas) {
  return sizeof(RingMemory) + areas * area_bytes(areas);
}
inline std::byte* RingMemory::area(std::size_t index, std::size_t areas) noexcept {
  return reinterpret_cast<std::byte*>(this) + sizeof(RingMemory) + index * area_bytes(areas);
}

/// Bytes of a full slot of a message in a ring of `areas` areas. They are fewer than fit
/// - if the message has few slots, since its receiver then begins earlier (half a ping-pong of 32 KiB took 0.80 us in
///   one piece, 0.73 in two);
/// - if there are many rings, so that their areas stay in a cache (all_to_all of 16 MiB among 8 ranks: 6.0 ms, and 7.0
///   with 64 KiB).
/// Where both ranks send, fewer and larger pieces cost less (sendrecv of 64 KiB: 1.97 us in four pieces, 1.87 in two;
/// one of 1 MiB: 40 us with pieces of 32 KiB, 37 with 64, of which a ring holds more).
constexpr std::size_t full_piece(std::uint64_t length, std::size_t areas) {
  if (length < slot_bytes) return slot_bytes / 4;
  return length < 4 * slot_bytes ? slot_bytes / 2 : area_bytes(areas);
}
/// Bytes of the slot that comes next in a message of `length` bytes with `rest` bytes missing. Both sides follow this
/// rule, so the frame's length is the only one that the receiver relies on.
constexpr std::size_t piece_bytes(std::uint64_t length, std::uint64_t rest, std::size_t areas) {
  return static_cast<std::size_t>(std::min<std::uint64_t>(rest, full_piece(length, areas)));
}
/// Slots for `rest` bytes of such a message.
constexpr std::size_t slots_for(std::uint64_t length, std::uint64_t rest, std::size_t areas) {
  const std::uint64_t full = full_piece(length, areas);
  return static_cast<std::size_t>(std::max<std::uint64_t>(1, (rest + full - 1) / full));
}

/// The value of a slot's flag: the number of the filling, from 1, modulo 2^24, and the area that has its payload.
constexpr std::uint32_t flag_of(std::uint64_t filling, AreaName area) {
  return static_cast<std::uint32_t>(area) << 24 | static_cast<std::uint32_t>(filling & 0xffffff);
}
constexpr bool is_flag_of(std::uint32_t flag, std::uint64_t filling) {
  return (flag & 0xffffff) == (filling & 0xffffff);
}
constexpr AreaName area_in(std::uint32_t flag) { return static_cast<AreaName>(flag >> 24); }

}  // namespace tutti::transport
