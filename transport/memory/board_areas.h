#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tutti::transport {

/// Rounds that may be in progress at once: a rank begins round n when all ranks have begun round n - board_depth + 1.
/// The number is large so that a root whose broadcasts need no answer rarely has to check whether they have been read.
inline constexpr std::uint64_t board_depth = 64;
/// Bytes of a contribution that lie beside the flag, in its cache line. If they went on in the next line, which has the
/// words of the call, readers would keep taking that line away from the writer (all_reduce of 64 B by two cores of a
/// Xeon: 0.33 us, and 0.27 with the data in an area).
inline constexpr std::size_t post_bytes = 48;

/// The direction of data in a round. In an exchange this rank reads posts of others, and others read its own. Neither
/// of two ranks can then be more than a round ahead; otherwise a rank that reads nothing may be far ahead. `from_one`:
/// one way, and only one rank contributes.
enum class Flow : std::uint8_t { one_way, from_one, exchange };
inline constexpr std::array every_flow{Flow::one_way, Flow::from_one, Flow::exchange};

/// Memory that ranks share.
struct MemoryNeed {
  std::size_t bytes = 0;
  std::size_t reserved = 0;  ///< bytes from the beginning that exist at once; the others do once they are populated
  std::size_t cleared = 0;   ///< bytes from the beginning that are zeros
};

/// Rounds that a rank will begin without asking each time whether there is room.
class Reservation {
 public:
  struct Part {
    Flow flow = Flow::one_way;
    std::size_t size = 0;  ///< the most that it contributes to one of them
  };
  void add(std::size_t contribution, Flow flow) {
    ++rounds_;
    const auto known = static_cast<std::size_t>(std::ranges::find(parts(), flow, &Part::flow) - parts().begin());
    part_count_ = std::max(part_count_, known + 1);
    parts_[known] = {flow, std::max(parts_[known].size, contribution)};
  }
  std::uint64_t rounds() const noexcept { return rounds_; }
  /// One for each flow that there is. Most calls have one.
  std::span<const Part> parts() const noexcept { return std::span{parts_}.first(part_count_); }

 private:
  std::array<Part, every_flow.size()> parts_{};
  std::size_t part_count_ = 0;
  std::uint64_t rounds_ = 0;  ///< of all flows
};

/// Areas of one size: each rank has `depth` of them, which it uses in turn, round by round.
struct AreaSet {
  std::uint64_t depth = 0;
  std::size_t bytes = 0;  ///< of each area
  std::size_t begin = 0;  ///< of the first area, in the memory of all ranks
};

/// Where ranks write contributions that are too large for a post: in areas if they are short, or if two ranks exchange
/// them, which thus stay in few cache lines; otherwise in rings, one after the other. A line of the ring should have
/// left the reader's caches when its turn comes again, since the writer would otherwise have to ask the reader for it.
/// The rings of all ranks that contribute count together for that. So a rank has two: a large one for rounds to which
/// it alone contributes, and one for the others. By default there is room for none.
struct AreaLayout {
  /// The longest contribution that lies in an area though the round is no exchange. It stays in the nearest caches (2
  /// ranks, broadcast of 1 KiB: 0.28 us in areas, 0.33 in a ring; of 2 KiB 0.50 and 0.37).
  static constexpr std::size_t most_in_area = 1024;

  static AreaLayout of(int ranks);

  /// The areas in which contributions of `size` bytes lie; null: they lie in rings.
  const AreaSet* areas_for(std::size_t size, Flow flow) const noexcept {
    if (size <= (flow == Flow::exchange ? small.bytes : most_in_area)) return &small;
    return flow == Flow::exchange && changes_hands ? &large : nullptr;
  }
  /// The same where every rank knows it: only the writer's own flow counts, and among more than two ranks it may differ
  /// from the reader's.
  const AreaSet* known_areas_for(std::size_t size, Flow flow) const noexcept {
    return changes_hands || size <= most_in_area ? areas_for(size, flow) : nullptr;
  }
  /// Bytes of a ring that a contribution takes.
  static constexpr std::size_t in_ring(std::size_t size) {
    constexpr std::size_t line = 64;
    return (size + line - 1) / line * line;
  }
  /// Once all ranks have begun a rank's latest round, `rounds` more may contribute `size` bytes each, even if nobody
  /// reads before the last.
  bool has_room_for(std::uint64_t rounds, std::size_t size, Flow flow) const noexcept;
  bool has_room_for(const Reservation& all) const noexcept {
    return std::ranges::all_of(all.parts(),
                               [&](const auto& part) { return has_room_for(all.rounds(), part.size, part.flow); });
  }

  AreaSet small;
  AreaSet large;                    ///< only between two ranks
  std::size_t capacity = 0;         ///< most bytes of a contribution
  std::size_t ring_bytes = 0;       ///< of each rank's ring for rounds to which several contribute
  std::size_t rings = 0;            ///< where these begin
  std::size_t lone_ring_bytes = 0;  ///< of each rank's ring for rounds to which it alone contributes
  std::size_t lone_rings = 0;       ///< where these begin. Their memory exists once it is populated
  std::size_t bytes = 0;            ///< of all memory
  /// Two ranks exchange their areas each time round.
  bool changes_hands = false;
};

/// The contributions of one rank that it writes to its ring, one after the other. Positions count all bytes since the
/// beginning.
class ContributionRing {
 public:
  ContributionRing() = default;
  ContributionRing(std::byte* memory, std::size_t bytes) : memory_(memory), bytes_(bytes), free_until_(bytes) {}

  /// Makes all of its memory exist. Page faults would make the contributions of the first time round slow (2 ranks,
  /// reduce of 16 KiB: 2.7 us instead of 0.7). False: the system refuses, as kernels before 5.14 do, or has no memory.
  bool populate() noexcept;

  /// Contributions have taken all of it once.
  bool has_gone_round() const noexcept { return head_ >= bytes_; }
  /// There is known to be room for `rounds` more contributions of up to `size` bytes.
  bool has_room(std::size_t size, std::uint64_t rounds) const noexcept { return end(size, rounds) <= free_until_; }
  /// The round that all ranks must have begun before there is; an earlier one if `begun`, which they are known to have
  /// begun, is no longer among the last board_depth before `latest`, this rank's.
  std::uint64_t round_that_makes_room(std::size_t size, std::uint64_t rounds, std::uint64_t begun,
                                      std::uint64_t latest) const noexcept;
  /// All ranks have begun that round, and so read all earlier ones. This rank has begun less than board_depth more.
  void all_have_begun(std::uint64_t round) noexcept {
    if (round > 0) free_until_ = end_of(round - 1) + bytes_;
  }
  /// Where the next contribution begins.
  std::byte* next(std::size_t size) const noexcept { return memory_ + start(size) % bytes_; }
  void take(std::size_t size) noexcept {
    if (!was_populated_) populate();
    head_ = start(size) + AreaLayout::in_ring(size);
  }
  /// All that was taken belongs to that round or an earlier one.
  void begin(std::uint64_t round) noexcept { ends_[round % board_depth] = head_; }

 private:
  /// A contribution is in one piece, so one that would cross the end of the ring begins at its beginning.
  std::uint64_t start(std::size_t size) const noexcept {
    const std::uint64_t left = bytes_ - head_ % bytes_;
    return AreaLayout::in_ring(size) <= left ? head_ : head_ + left;
  }
  /// Behind those contributions. Any of several may have to skip the end of the ring.
  std::uint64_t end(std::size_t size, std::uint64_t rounds) const noexcept {
    const std::size_t each = AreaLayout::in_ring(size);
    return rounds == 1 ? start(size) + each : head_ + (rounds + 1) * each;
  }
  std::uint64_t end_of(std::uint64_t round) const noexcept { return ends_[round % board_depth]; }

  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 1;  ///< or more: the remainder by 0 has no meaning. Without memory there is no room
  std::uint64_t head_ = 0;
  std::uint64_t free_until_ = 0;
  bool was_populated_ = false;
  std::array<std::uint64_t, board_depth> ends_{};  ///< of what the latest rounds have taken
};

}  // namespace tutti::transport
