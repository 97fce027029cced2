#include "transport/memory/board_areas.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>

#include "lib/base/memory_units.h"

namespace tutti::transport {
namespace {

constexpr std::size_t kib = 1024, mib = 1024 * kib;
/// More than the cache of a core holds, in the ring of a rank that contributes alone, and in those of all ranks
/// together (4 ranks on 2 cores of a Zen 4 with 1 MiB for each, scatter of 64 KiB: 4.9 us with rings of 768 KiB, 2.2
/// with 3 MiB). Much more is slower (gather of 64 KiB among 8 ranks, 3.4 us with 384 KiB for each, 8.4 with 3 MiB).
constexpr std::size_t of_lone_ring = 3 * mib, of_all_rings = 4 * mib;

/// With few ranks it is large.
std::size_t capacity_for(std::size_t ranks) {
  constexpr std::size_t of_all = 1024 * kib, most = 128 * kib, least = 8 * kib;
  return std::clamp(std::bit_floor(of_all / ranks), least, most);
}

}  // namespace

AreaLayout AreaLayout::of(int count) {
  const auto ranks = static_cast<std::size_t>(count);
  AreaLayout layout;
  const auto add = [&](std::uint64_t depth, std::size_t each) {
    const AreaSet areas{depth, each, layout.rings};
    layout.rings += ranks * depth * each;
    return areas;
  };
  layout.capacity = capacity_for(ranks);
  if (ranks == 2) {
    // A core that has read an area can write it at once (2 ranks on different cores, all_gather of 16 KiB: 1.15 us
    // without, 0.88 with; all_reduce 1.69 and 1.24). A dozen areas of 64 KiB for each rank exceed the caches near a
    // core (2 cores of a Zen 4, all_reduce of 64 KiB: 4.94 us with 16, 3.93 with 4). Short contributions fit anyway,
    // and are faster with more areas (all_gather of 256 B: 0.43 us with 4, 0.39 with 16).
    layout.changes_hands = true;
    layout.small = add(16, 8 * kib);
    layout.large = add(4, layout.capacity);
    layout.ring_bytes = 4 * layout.capacity;
  } else {
    // Where ranks share cores, the further a root runs ahead of its readers, the less often it is switched out (8 ranks
    // on 2 cores, broadcast of 1 KiB: 4.5 us with 4 areas, 1.9 with 64).
    layout.small = add(board_depth, ranks <= 8 ? 2 * most_in_area : most_in_area);
    // At least three of the longest contributions: when all have begun a rank's last round, it must have room for
    // another, and may have to skip as much at the end of the ring.
    layout.ring_bytes = of_all_rings / std::bit_ceil(ranks);
  }
  layout.lone_rings = layout.rings + ranks * layout.ring_bytes;
  const std::size_t lone_ring = of_lone_ring / std::max<std::size_t>(1, std::bit_ceil(ranks) / 8);
  // A place for it is a power of two. The rings shrink a little if that halves the place.
  const std::size_t wanted = layout.lone_rings + ranks * lone_ring, less = std::bit_floor(wanted);
  layout.bytes = wanted <= less + less / 4 ? less : wanted;
  layout.lone_ring_bytes = (layout.bytes - layout.lone_rings) / ranks / page_bytes * page_bytes;
  return layout;
}

bool AreaLayout::has_room_for(std::uint64_t rounds, std::size_t size, Flow flow) const noexcept {
  if (rounds >= board_depth) return false;
  if (size <= post_bytes) return true;
  if (rounds >= small.depth) return false;  // some of them may be short
  if (const AreaSet* const areas = areas_for(size, flow)) return rounds < areas->depth;
  const std::size_t latest = 2 * capacity;  // which nobody has read when all have begun its round, and what it skipped
  return latest + (rounds + 1) * in_ring(size) <= ring_bytes;
}

bool ContributionRing::populate() noexcept {
  constexpr int populate_write = 23;  // MADV_POPULATE_WRITE, which older C libraries do not define
  was_populated_ = true;
  return ::madvise(memory_, bytes_, populate_write) == 0;
}

std::uint64_t ContributionRing::round_that_makes_room(std::size_t size, std::uint64_t rounds, std::uint64_t begun,
                                                      std::uint64_t latest) const noexcept {
  if (has_room(size, rounds)) return 0;
  const std::uint64_t to_be_read = end(size, rounds) - bytes_;
  std::uint64_t round = begun;
  while (round < latest && end_of(round) < to_be_read) ++round;
  return round + 1;
}

}  // namespace tutti::transport
