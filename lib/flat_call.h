#pragma once

#include <cstddef>
#include <span>

#include "lib/arithmetic.h"
#include "lib/call.h"
#include "lib/window.h"
#include "transport/board.h"
#include "transport/store_path.h"
#include "tutti/communicator.h"

namespace tutti::detail {

/// One collective over a board: what a rank contributes, whose contributions it needs, and what it makes of them. It
/// is what the plans called `direct` say, with the same result to the last bit.
///
/// What does not fit is done piece by piece, a round each: round k has the k-th piece of every part.
///
/// In windows only the place of the buffers is put on the board: in the first round a rank reads what the others
/// contribute where it lies; the second one says that all are through. Of an all_reduce each rank combines one
/// part, and writes it to all of them.
struct FlatCall {
  /// The request must be checked and outlive the call. `capacity`: bytes that a rank can contribute to a round. Throws
  /// nothing.
  static FlatCall of(const Request& request, int rank, int ranks, const compute::Table& kernels, std::size_t capacity,
                     const Place& place);

  bool is_root() const { return rank == root; }
  bool reads(int peer) const { return place.given() || reads(collective, root, rank, peer); }
  /// The same for any two ranks; `peer` reads of `writer` in a call that is not in windows.
  static bool reads(Collective collective, int root, int reader, int writer);
  bool is_read_by(int peer) const { return place.given() || reads(collective, root, peer, rank); }
  /// Bytes of what `writer` contributes to a round that are for `reader`, who reads it.
  std::size_t message_bytes(int writer, int reader, int round) const;
  int rounds() const { return rounds_; }
  /// It takes one round, or two between which little is to be done.
  bool may_be_at_once() const { return rounds() == 1 || (place.given() && vector_bytes <= most_at_once); }
  /// All that this rank contributes, round by round.
  std::span<const std::byte> contribution() const;
  /// Bytes of it that belong to round `round`.
  std::size_t size_of_round(int round) const { return rounds_ == 1 ? own_size_ : size_of_round(rank, round); }
  /// Puts them to `room`. `contribution` is as above, or a copy.
  void put(std::byte* room, const std::byte* contribution, int round, transport::StorePath& path) const noexcept;
  /// Everybody whom this rank reads has begun the round.
  void take(const transport::Board& board, int round) const noexcept;

  /// For a _v call, whose parts differ: elements before each part, and of all. To be kept until the call is over.
  void give_parts(std::span<const std::size_t> elements_before);

  /// Where part `part` of the side that has one per rank begins.
  std::size_t offset(int part) const;
  std::size_t size(int part) const { return offset(part + 1) - offset(part); }

  // After of() these stay as they are, but for the input.
  Collective collective{};
  int rank = 0;
  int ranks = 1;
  int root = 0;
  std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::size_t vector_bytes = 0;  ///< all_reduce, reduce, broadcast: of the whole; else of an equal part
  std::size_t piece_bytes = 0;   ///< of a part that go in one round, at most
  Arithmetic arithmetic;
  compute::Copy copy_streaming = nullptr;
  bool streams = false;  ///< its result is written past the caches
  Place place;

 private:
  static constexpr std::size_t most_at_once = std::size_t{1} << 20;
  /// Bytes of a buffer.
  struct Range {
    std::size_t begin = 0;
    std::size_t size = 0;
  };
  void count_rounds();
  bool contributes_parts() const;
  bool is_kept(int writer, int part) const;
  std::size_t bytes_of_parts(int writer, int end, int round) const;
  Range piece(Range whole, int round) const;
  Range piece_of_part(int part, int round) const { return piece({offset(part), size(part)}, round); }
  std::size_t size_of_round(int peer, int round) const;
  std::size_t largest_part() const;
  const std::byte* posted(const transport::Board& board, int peer, int round) const;
  Place::Offsets offsets_of(const transport::Board& board, int peer) const;
  const std::byte* own_part_posted(const transport::Board& board, int peer, int round) const;
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) const noexcept;
  void fold(const transport::Board& board, int round) const noexcept;
  void fetch_own_part(const transport::Board& board, int peer, int round, std::byte* to) const noexcept;
  void share_the_folding(const transport::Board& board) const noexcept;
  void hand_out(const transport::Board& board) const noexcept;

  std::span<const std::size_t> prefix_ = {};  ///< _v: elements before each part
  int rounds_ = 1;
  // Of calls of one round, which should not have to find out each time:
  std::size_t own_size_ = 0;  ///< what this rank contributes
  std::size_t size_ = 0;      ///< what a rank contributes that contributes anything, if all do alike
};

}  // namespace tutti::detail
