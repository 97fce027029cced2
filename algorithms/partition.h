#pragma once

#include "algorithms/plan.h"

namespace tutti::algorithms {

/// The blocks of each rank: part i is blocks [i * pipeline, (i + 1) * pipeline).
class Parts {
 public:
  constexpr Parts(const Shape& shape, Buffer buffer)
      : ranks_(shape.ranks), pipeline_(shape.pipeline), buffer_(buffer) {}

  constexpr Blocks operator[](int part) const { return {buffer_, part * pipeline_, pipeline_}; }
  /// Parts [part, part + count), wrapping after the last.
  constexpr Blocks range(int part, int count) const { return {buffer_, part * pipeline_, count * pipeline_}; }
  constexpr Blocks all() const { return range(0, ranks_); }
  /// One pipeline piece of one part.
  constexpr Blocks piece(int part, int k) const { return {buffer_, part * pipeline_ + k, 1}; }
  /// Piece k of the whole vector cut into `pipeline` pieces of `ranks` blocks each.
  constexpr Blocks slice(int k) const { return {buffer_, k * ranks_, ranks_}; }

 private:
  int ranks_;
  int pipeline_;
  Buffer buffer_;
};

/// Block k of some blocks.
constexpr Blocks piece(Blocks blocks, int k) { return {blocks.buffer, blocks.first + k, 1}; }
/// The blocks of the same number in input or output.
constexpr Blocks as(Buffer buffer, Blocks blocks) { return {buffer, blocks.first, blocks.count}; }

/// Ranks in a circle.
struct Ring {
  int rank;
  int ranks;
  constexpr int next() const { return ahead(1); }
  constexpr int prev() const { return behind(1); }
  /// The rank `k` places ahead or behind, 0 <= k <= ranks.
  constexpr int ahead(int k) const { return (rank + k) % ranks; }
  constexpr int behind(int k) const { return (rank - k + ranks) % ranks; }
};
static_assert(Ring{0, 4}.prev() == 3 && Ring{3, 4}.next() == 0 && Ring{1, 4}.behind(4) == 1);

/// Ranks renumbered so that the root is 0.
struct Rotated {
  int root;
  int ranks;
  constexpr int to_virtual(int rank) const { return (rank - root + ranks) % ranks; }
  constexpr int to_rank(int virtual_rank) const { return (virtual_rank + root) % ranks; }
};
static_assert(Rotated{2, 5}.to_virtual(1) == 4 && Rotated{2, 5}.to_rank(4) == 1);

}  // namespace tutti::algorithms
