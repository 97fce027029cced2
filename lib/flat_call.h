#pragma once

#include <cstddef>
#include <span>

#include "lib/arithmetic.h"
#include "lib/call.h"
#include "transport/board.h"
#include "tutti/communicator.h"

namespace tutti::detail {

/// One collective over a board: what a rank contributes, whose contributions it needs, and what it makes of them. It
/// is what the plans called `direct` say, with the same result to the last bit.
struct FlatCall {
  /// The request must be checked and outlive the call. Throws nothing.
  static FlatCall of(const Request& request, int rank, int ranks, const compute::Table& kernels);

  bool is_root() const { return rank == root; }
  bool reads(int peer) const;
  std::span<const std::byte> contribution() const;
  /// Everybody whom this rank reads has begun.
  void take(const transport::Board& board) const noexcept;

  /// Where part `part` of the side that has one per rank begins.
  std::size_t offset(int part) const;
  std::size_t size(int part) const { return offset(part + 1) - offset(part); }

  Collective collective{};
  int rank = 0;
  int ranks = 1;
  int root = 0;
  std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::size_t vector_bytes = 0;              ///< all_reduce, reduce, broadcast: of the whole; else of an equal part
  std::span<const std::size_t> prefix = {};  ///< _v: elements before each part
  Arithmetic arithmetic;

 private:
  void fold(const transport::Board& board, std::size_t whole, std::size_t from, std::size_t bytes) const noexcept;
};

}  // namespace tutti::detail
