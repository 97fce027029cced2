#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "algorithms/plan.h"

namespace tutti::detail {

/// Where one piece of `pieces` begins when `count` elements are cut into balanced pieces of whole cache lines (of
/// single elements if there are too few for that). Piece sizes differ by one unit at most.
std::size_t piece_offset(std::size_t count, std::size_t pieces, std::size_t piece, std::size_t element_size);

/// How one buffer is cut into the blocks that plans speak of.
class Partition {
 public:
  /// One vector of `count` elements cut into `blocks` balanced blocks (all_reduce, reduce, broadcast).
  static Partition vector(std::size_t count, int blocks, std::size_t element_size);
  /// Equal parts of `count` elements, each cut into `pipeline` blocks.
  static Partition parts(std::size_t count, int pipeline, std::size_t element_size);
  /// Parts of counts[k] elements one after the other. `prefix` has ranks + 1 entries and must outlive the partition.
  static Partition parts(std::span<const std::size_t> prefix, int pipeline, std::size_t element_size);

  /// Bytes from the beginning of part 0 to block `block`; also for the block after the last.
  std::size_t offset(int block) const;

 private:
  std::span<const std::size_t> prefix_;  // empty: equal parts
  std::size_t count_ = 0;
  int pieces_ = 1;  // per part
  bool one_vector_ = false;
  std::size_t element_size_ = 1;
};

/// The blocks of one operation as memory: here, and only here, blocks become bytes.
struct Binding {
  struct Side {
    std::byte* origin = nullptr;  ///< where block 0 lies, or would lie if this rank held it
    Partition partition;
  };
  Side input;
  Side output;
  std::byte* scratch = nullptr;
  std::vector<std::size_t> scratch_offset;  ///< slots + 1 entries, bytes

  std::span<std::byte> bytes(const algorithms::Blocks& blocks) const;

  /// Lays out the scratch slots of `plan`; returns how many bytes they need.
  std::size_t lay_out_scratch(const algorithms::Plan& plan);
};

}  // namespace tutti::detail
