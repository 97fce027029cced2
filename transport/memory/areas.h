#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "transport/memory/ring_memory.h"

namespace tutti::transport {

/// The areas of the two rings between this rank and one peer, and those of them that this rank may fill next.
///
/// A core that reads what another core has written gets the cache lines for itself: it can write them at once, while
/// the other one would first have to get them back. So the receiver keeps the area that it has read, fills it with its
/// next message to the peer, and returns another one for it, the one that it has not touched for longest. Each rank
/// then always has as many areas as its own ring brought along. Messages that are answered, or that both ranks send
/// each other, move to and fro in few areas (half a ping-pong of 8 KiB between 2 ranks on different cores of a Zen 5:
/// 1.20 us if each rank has areas of its own, 0.86 so). Messages in one direction go round all areas of both rings, so
/// that a sender does not write where its receiver has just read.
///
/// Such a round should be larger than a core's cache. The sender then finds the lines in the cache that both share, and
/// need not ask the other core for them (gather of 256 KiB between 2 ranks of a Zen 4 with 1 MiB for each core: 11.2 us
/// with a round of 1 MiB, 6.0 with 3 MiB). A long message fills the caches by itself, and a large round takes room from
/// it in the shared cache (sendrecv of 4 MiB: 302 us with rounds of 1 MiB, 370 with 4 MiB). So long messages have a
/// round of their own.
///
/// Threading: one thread at a time.
class Areas {
 public:
  /// The ring that this rank fills, and the one that the peer fills; each at most once. Both stay mapped.
  void add_own(std::shared_ptr<RingMemory> ring, std::size_t areas) noexcept;
  void add_theirs(std::shared_ptr<RingMemory> ring, std::size_t areas) noexcept;
  bool has_theirs() const noexcept { return theirs_.ring != nullptr; }
  /// How many areas this rank's ring has brought along, and the peer's.
  std::size_t of_own() const noexcept { return own_.areas; }
  std::size_t of_theirs() const noexcept { return theirs_.areas; }
  /// The peer has mapped this rank's ring, so it may be given areas of it.
  void peer_has_own() noexcept { peer_has_own_ = true; }

  /// The next area to fill, with a message of `length` bytes. There is one whenever a slot is free.
  AreaName take(std::uint64_t length) noexcept;
  /// The peer has returned an area in exchange for `filled`.
  void put_back(AreaName returned, AreaName filled) noexcept;
  /// This rank has read what the peer filled, and keeps it if it has another one to give. Returns what the peer gets.
  AreaName exchange(AreaName read) noexcept;
  /// Where the area lies. A name that a peer made up is some area, too.
  std::byte* at(AreaName area) const noexcept;
  /// At least that many bytes lie there.
  std::size_t bytes_of_each() const noexcept { return bytes_of_each_; }
  /// This rank is about to touch the first `bytes` bytes of the area. True: some of them for the first time, so that
  /// page faults will take longer than a copy does.
  bool is_first_use(AreaName area, std::size_t bytes) noexcept;

 private:
  struct Ring {
    std::shared_ptr<RingMemory> ring;
    std::size_t areas = 0;
  };
  /// Areas that are free, the one to be filled next first. None is in two rounds.
  class Round {
   public:
    bool empty() const noexcept { return count_ == 0; }
    void append(AreaName area) noexcept { places_[(first_ + count_++) % places_.size()] = area; }
    AreaName take_first() noexcept;
    /// Puts `area` in front and takes the last one. Not if it is empty.
    AreaName replace_last(AreaName area) noexcept;

   private:
    std::array<AreaName, std::size_t{2} * most_areas> places_{};  // a circle
    std::size_t first_ = 0, count_ = 0;
  };
  bool is_known(AreaName area) const noexcept;
  static bool is_of_long(AreaName area) noexcept;
  Round& round_of(AreaName area) noexcept { return is_of_long(area) ? of_long_ : of_others_; }
  void note(std::size_t areas) noexcept { bytes_of_each_ = std::min(bytes_of_each_, area_bytes(areas)); }

  Ring own_, theirs_;
  std::size_t bytes_of_each_ = slot_bytes;
  bool peer_has_own_ = false;
  Round of_long_, of_others_;
  std::array<std::uint32_t, 256> used_{};  // by name: bytes that this rank has touched
};

}  // namespace tutti::transport
