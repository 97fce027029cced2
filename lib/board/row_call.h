#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "algorithms/row_program.h"
#include "lib/collective/arithmetic.h"
#include "transport/memory/board.h"

namespace tutti::detail {

/// A sum that passes from rank to rank, slice by slice. In each round of the board one slice passes all ranks: a rank
/// waits until the one before it in the row has begun the round, adds its own to the sum in the slot of the round, and
/// begins the round, too. Where all ranks read the sum, they do so some rounds later, so that those at the front of the
/// row meanwhile go on to the next slices.
class RowCall {
 public:
  struct Buffers {  // of the result, where this rank gets one
    std::byte* output = nullptr;
    std::size_t count = 0;  ///< elements
    bool in_place = false;
  };

  /// Not in a row: given() is false.
  RowCall() = default;
  RowCall(const algorithms::RowProgram& program, int rank, const Buffers& buffers, const Arithmetic& arithmetic,
          compute::Copy copy_streaming);
  /// Whether an int is enough for the rounds of a vector of `bytes`.
  static bool can_count_rounds_of(std::size_t bytes);
  bool given() const { return program_ != nullptr; }
  int rounds() const { return slices_ + static_cast<int>(late()); }
  /// Rounds that are begun before a sum is read.
  std::uint64_t late() const { return program_->is_spread ? rounds_late : 0; }
  /// This rank adds a slice in that round.
  bool adds_in(int round) const { return round < slices_; }
  /// The rank that must have begun that round before this one may; -1: none.
  int before(int round) const { return adds_in(round) ? before_ : -1; }
  std::span<const int> ranks() const { return program_->row; }
  bool is_last() const { return next_ < 0; }
  /// `rank` may wait for this one to begin that round. One that has gone on to another call may wait for the last
  /// round.
  bool may_let_go_on(int rank, int round) const {
    return is_last() || round + 1 == rounds() || rank == next_ || rank == program_->row.front();
  }
  bool reads_in(int round) const { return program_->is_spread && !is_last() && round >= rounds_late; }
  /// The rank whose begin of an earlier round this one waits for, so that it can read the sum.
  std::span<const int> awaited(int round) const {
    return reads_in(round) ? std::span{&program_->row.back(), 1} : std::span<const int>{};
  }
  /// Bytes of the sum that pass in that round.
  std::size_t size_of_round(int round) const { return adds_in(round) ? of(round).count * arithmetic_.sum_size() : 0; }
  /// Adds this rank's slice of `input` to the sum in `slot`, and returns the bytes of the sum. Call it in a
  /// compute::FloatEnvironment.
  std::size_t add(std::byte* slot, const std::byte* input, int round) const noexcept;
  bool is_read_by(int peer, int round) const {
    return adds_in(round) && (is_last() ? program_->is_spread : peer == next_);
  }
  /// Takes the sum of an earlier round out of `slot`, and returns its bytes.
  std::size_t take(const std::byte* slot, int round) const noexcept;

 private:
  /// Measured with 8 ranks on 2 cores, all_reduce of 64 MiB: 66 ms with 16, 54 with 20, 58 with 24.
  static constexpr int rounds_late = 20;

  /// Elements.
  struct Slice {
    std::size_t first = 0;
    std::size_t count = 0;
  };
  Slice of(int round) const;
  void combine(std::byte* sum, const std::byte* own, std::size_t bytes) const noexcept;
  void write_result(const Slice& slice, const std::byte* slot) const noexcept;

  const algorithms::RowProgram* program_ = nullptr;
  int before_ = -1;
  int next_ = -1;  ///< the rank that can begin a round once this one has; -1: none
  int slices_ = 0;
  std::size_t slice_ = 0;  ///< elements of a slice
  Buffers buffers_;
  Arithmetic arithmetic_;
  compute::Copy copy_streaming_ = nullptr;  ///< null: results are not written past the caches
};

}  // namespace tutti::detail
