#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "algorithms/board_program.h"
#include "lib/board/row_call.h"
#include "lib/board/window_call.h"
#include "lib/collective/arithmetic.h"
#include "lib/collective/call_buffers.h"
#include "transport/memory/board.h"
#include "transport/memory/copy_policy.h"
#include "tutti/communicator.h"

namespace tutti::detail {

struct Prepared;

/// Programs of two rounds, and those that sum each rank's own contribution first, compete with plans made for links.
/// They are faster while waiting for messages takes most of the time. Where ranks share cores, two rounds in rank order
/// stay faster, since each byte is copied less often (all_reduce of 16 MiB among 8 ranks on 2 cores: 20.0 ms by the
/// best plan over links, 16.3 by a board).
inline constexpr std::size_t most_not_simple = std::size_t{64} * 1024;

/// One collective over a board: the program of its plan, bound to memory. The result has the same bits as with the same
/// plan over links.
///
/// A contribution that does not fit on the board is posted piece by piece. A round of the program then takes several
/// rounds of the board, one for each piece; in each of them the same piece of every unit is posted and read.
///
/// If the buffers lie in allocated memory, only their offsets are posted: see WindowCall. If the plan passes its sums
/// along a row of ranks, they stay in slots of the board: see RowCall.
class BoardCall {
 public:
  struct Ground {
    int rank = 0;
    int ranks = 1;
    const compute::Table* kernels = nullptr;
    std::size_t capacity = 0;  ///< bytes that a rank can contribute to a round of the board
  };

  BoardCall() = default;
  /// `request` has been checked, and `prepared` has a program; both outlive the call. `offsets` is filled for a _v
  /// call, and must be kept until the call is over.
  static BoardCall of(const Request& request, const Prepared& prepared, const WindowLocation& location,
                      const Ground& ground, PartOffsets& offsets);
  /// Whether at least one cache line of every unit can be posted in a round with `capacity` bytes per rank, and an int
  /// is enough for the rounds of a vector of `bytes`. If the program goes by domains, all of it must fit.
  static bool fits(const algorithms::BoardProgram& program, std::size_t capacity, std::size_t bytes);
  /// Bytes of memory for the scratch of a program.
  static std::size_t scratch_bytes(const algorithms::BoardProgram& program);

  int rounds() const { return rounds_; }
  /// What must be free before an inline call begins, since it does not wait for room later.
  const transport::Reservation& reservation() const { return reservation_; }
  /// The ranks whose posts the round reads, or in a row those of the round late() rounds before.
  std::span<const int> awaited(int round) const { return in_row() ? row_.awaited(round) : phase_of(round).awaited; }
  transport::Flow flow(int round) const { return phase_of(round).flow; }
  bool is_in_window() const { return window_.given(); }
  bool in_row() const { return row_.given(); }
  const RowCall& row() const { return row_; }
  /// What it needs of the board beside posts.
  transport::BoardPart part() const { return part_; }
  /// The call takes one round; or it takes a few with little work between them, and each may begin as soon as the one
  /// before is complete.
  bool may_run_inline() const { return may_run_inline_; }
  /// Some result combines contributions.
  bool computes() const { return computes_; }
  /// Bytes of the vector, or of an equal part of it.
  std::size_t part_bytes() const { return part_bytes_; }

  /// This rank's own data in the first round, from the first byte to the last, gaps included.
  std::span<const std::byte> contribution() const { return contribution_; }
  /// Bytes that this rank's contribution to a round takes on the board.
  std::size_t size_of_round(int round) const { return rounds_ == 1 ? phases_[0].own_size : size_of_one_of_many(round); }
  /// Writes this rank's contribution to `room` and returns its bytes. `contribution` is contribution(), or a copy of
  /// it.
  std::size_t put(std::byte* room, const std::byte* contribution, int round,
                  transport::StoreChoice& path) const noexcept {
    const Phase& phase = phases_[0];
    if (rounds_ > 1 || !phase.is_one_piece) return put_pieces(room, contribution, round, path);
    path.copy(room, contribution, phase.own_size);
    return phase.own_size;
  }
  /// Some results of the round are copies of this rank's own input, which need not wait for other ranks.
  bool copies_own(int round) const { return phase_of(round).own_copies > 0; }
  /// Makes those results, once the contribution is on the board. Returns their bytes, without those that are in place.
  std::size_t copy_own(int round) const noexcept;
  /// Computes the other results of a round that all awaited ranks have begun. Returns how many bytes were read from
  /// other ranks. Call it in a compute::FloatEnvironment.
  std::size_t take(const transport::Board& board, int round) const noexcept {
    if (in_row()) return row_.reads_in(round) ? row_.take(board.slot_before(row_.late()), round) : 0;
    return is_in_window() || !phase_of(round).round->results.empty() ? make_results(board, round) : 0;
  }

  /// From now on `data`, of the same size, is contributed instead of the input: the input multiplied by a factor.
  void contribute_instead(const std::byte* data);

  /// This thread starts the prepared call again.
  void begin_again() noexcept { arithmetic_.begin_again(); }

  // ---- For the trace
  bool is_read_by(int peer, int round) const;
  /// Bytes of a round that `peer` reads from this rank, or this rank from `peer`.
  std::size_t bytes_to(int peer, int round) const;
  std::size_t bytes_from(int peer, int round) const;

 private:
  using Round = algorithms::BoardProgram::Round;
  using Source = algorithms::BoardProgram::Source;
  using Result = algorithms::BoardProgram::Result;

  /// A round of the program.
  struct Phase {
    const Round* round = nullptr;
    std::span<const int> awaited;
    std::span<const algorithms::Blocks> ranges;  ///< of this rank's contribution
    int pieces = 1;                              ///< into which every unit is cut; each takes a round of the board
    std::size_t piece_bytes = 0;                 ///< largest size of a piece
    std::size_t unit_bytes = 0;                  ///< size of every unit; 0: they differ
    std::size_t size = 0;                        ///< size of every contribution that is not empty; 0: they differ
    std::size_t own_size = 0;
    int own_copies = 0;         ///< the first results, which copy this rank's own input
    bool is_one_piece = false;  ///< this rank's contribution, as it is in its buffer
    transport::Flow flow = transport::Flow::one_way;
  };
  struct Range {
    std::size_t begin = 0, size = 0;
  };

  void bind(Phase& phase, const Round& round, std::size_t capacity);
  void reserve(int rounds);
  void bind_to_row(const algorithms::RowProgram& program, const Request& request, int rank);
  std::span<const std::byte> own_data(const Phase& phase) const;
  std::size_t size_of_one_of_many(int round) const;
  /// In a program by domains each phase has one piece.
  const Phase& phase_of(int round) const {
    if (round < phases_[0].pieces) return phases_[0];
    return phases_[by_domains_ ? static_cast<std::size_t>(round) : 1];
  }
  /// The number of the piece within its phase.
  int piece_of(int round) const {
    if (round < phases_[0].pieces) return round;
    return by_domains_ ? 0 : round - phases_[0].pieces;
  }
  std::size_t size_of(const Phase& phase, int peer) const;
  const Binding::CutBuffer& buffer(algorithms::Buffer which) const {
    return which == algorithms::Buffer::input ? buffers_.input : buffers_.output;
  }
  /// Where those blocks are in the vector.
  Range range_of(const algorithms::Blocks& blocks) const {
    const Partition& partition = buffers_.input.partition;
    const int first = blocks.buffer == algorithms::Buffer::scratch ? blocks.first % blocks_ : blocks.first;
    const std::size_t begin = partition.offset(first);
    return {begin, partition.offset(first + blocks.count) - begin};
  }
  /// Where byte `offset` of the vector is in the buffer of those blocks.
  std::byte* address(const algorithms::Blocks& blocks, std::size_t offset) const;
  /// The extent of piece `number` within its unit.
  Range piece(const Phase& phase, std::size_t unit_size, int number) const;
  std::size_t put_pieces(std::byte* room, const std::byte* contribution, int round,
                         transport::StoreChoice& path) const noexcept;
  std::size_t make_results(const transport::Board& board, int round) const noexcept;
  Range made_in(const Phase& phase, const Result& result, int round) const;
  const std::byte* posted(const transport::Board& board, const Phase& phase, const Source& source) const;
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) const noexcept;
  std::size_t fold(const transport::Board& board, const Phase& phase, const Result& result, std::size_t begin,
                   std::size_t size) const noexcept;

  const algorithms::BoardProgram* program_ = nullptr;
  std::array<Phase, algorithms::most_rounds_by_domains> phases_{};
  int rounds_ = 1;
  int blocks_ = 1;  // of the vector
  bool by_domains_ = false;
  transport::Reservation reservation_;
  std::byte* scratch_ = nullptr;
  transport::BoardPart part_ = transport::BoardPart::posts_only;
  bool may_run_inline_ = false;
  bool computes_ = false;
  bool streams_ = false;  // results are written past the caches
  std::size_t part_bytes_ = 0;
  std::span<const std::byte> contribution_;
  CallBuffers buffers_;
  Arithmetic arithmetic_;
  compute::Copy copy_ = nullptr;  // of results
  WindowCall window_;
  RowCall row_;
};

}  // namespace tutti::detail
