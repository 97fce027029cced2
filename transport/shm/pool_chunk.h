#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "lib/base/descriptor.h"
#include "transport/memory/board_areas.h"
#include "transport/shm/memory.h"
#include "transport/transport.h"

namespace tutti::transport {

/// Shared memory cut into places of one size. A place belongs to one group at a time. One rank, the owner, makes the
/// chunk and gives places away; the other members of a group find theirs by its name. Neither needs a message once a
/// rank has mapped the chunk.
///
///   free -> given away -> entered by the other members -> left by all of them -> free
///
/// A name can only be in one bucket of places, so finding it costs a few cache lines however many places there are.
///
/// The memory of a place is reserved when it is given away. When all members have left, some of it stays reserved, and
/// the rest goes back to the system, unless it is locked. A rank that dies never leaves: its place is lost for the life
/// of the chunk.
///
/// Threading: one thread at a time in each process.
class PoolChunk : public std::enable_shared_from_this<PoolChunk> {
 public:
  static constexpr std::size_t places_in_bucket = 8;
  static constexpr std::size_t most_places = std::size_t{1} << 16;
  /// Bytes of free places that stay reserved, where they were; at least one place does. What was populated beyond goes
  /// back to the system.
  static constexpr std::size_t most_kept = std::size_t{16} << 20;

  /// For the owner. Both are powers of two, `places` at least a bucket, `place_bytes` at least a page. Throws
  /// Error{system}.
  static std::shared_ptr<PoolChunk> make(std::size_t places, std::size_t place_bytes);
  /// For the other ranks. Otherwise says what is wrong with the descriptor.
  static std::variant<std::shared_ptr<PoolChunk>, std::string> map(const Descriptor& descriptor);

  std::size_t place_bytes() const { return place_bytes_; }

  // ---- The owner
  const Descriptor& descriptor() const { return descriptor_; }
  bool has_free_place(Channel name) const noexcept { return free_place(name).has_value(); }
  /// Gives a free place to `users` ranks, this one included. It exists while a rank holds it. Throws Error{system}.
  std::shared_ptr<std::byte> give(Channel name, const MemoryNeed& need, std::size_t users);
  /// Some members have not entered that place.
  bool is_incomplete(Channel name) const noexcept;
  /// No further rank may enter it.
  void withdraw(Channel name) noexcept;
  /// Some rank sleeps until it is given a place.
  bool is_awaited() const noexcept;

  // ---- The others
  /// The descriptor is that of this chunk.
  bool is_in(const Descriptor& descriptor) const noexcept;
  /// Enters the place of that name, once. Null: there is none.
  std::shared_ptr<std::byte> enter(Channel name) noexcept;
  /// Call it before sleeping until a place is given: a rank that gives one afterwards sees that. Look once more, then
  /// sleep.
  void begin_to_wait() noexcept;
  void end_waiting() noexcept;

 private:
  struct Head;
  struct Place;
  struct Uses;

  PoolChunk(SharedMemory memory, Descriptor descriptor, std::size_t places, std::size_t place_bytes);
  static std::size_t bytes_before_places(std::size_t places);

  Head& head() const noexcept;
  Place& place(std::size_t index) const noexcept;
  std::size_t bucket(Channel name) const noexcept;
  std::optional<std::size_t> free_place(Channel name) const noexcept;
  std::optional<std::size_t> find(Channel name) const noexcept;
  std::byte* memory_of(std::size_t index) const noexcept;
  std::shared_ptr<std::byte> held(std::size_t index);
  void clear(std::size_t index, const MemoryNeed& need);
  void leave(std::size_t index) noexcept;
  void free(std::size_t index) noexcept;

  SharedMemory memory_;
  Descriptor descriptor_;
  std::size_t places_;
  std::size_t place_bytes_;
  std::uint64_t inode_ = 0;            // if this rank is not the owner
  std::vector<std::size_t> reserved_;  // if it is: bytes of each place that are reserved
};

}  // namespace tutti::transport
