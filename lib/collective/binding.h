#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "algorithms/plan.h"
#include "tutti/types.h"

namespace tutti::detail {

/// Where one piece of `pieces` begins when `count` elements are cut into balanced pieces of whole cache lines (of
/// single elements if there are too few for that). Piece sizes differ by one unit at most.
std::size_t piece_offset(std::size_t count, std::size_t pieces, std::size_t piece, std::size_t element_size);

/// How one buffer is cut into the blocks that plans speak of.
class Partition {
 public:
  /// As every rank cuts a call of a vector, or parts, of `count` elements.
  static Partition of(Collective collective, std::size_t count, int ranks, int pipeline, std::size_t element_size);
  /// One vector of `count` elements cut into `blocks` balanced.
  static Partition vector(std::size_t count, int blocks, std::size_t element_size);
  /// Equal parts of `count` elements, each cut into `pipeline` blocks.
  static Partition parts(std::size_t count, int pipeline, std::size_t element_size);
  /// Parts of counts[k] elements one after the other. `prefix` has ranks + 1 entries and must outlive the partition.
  static Partition parts(std::span<const std::size_t> prefix, int pipeline, std::size_t element_size);

  /// The same cuts, but of elements that are larger.
  Partition with_elements_of(std::size_t size) const;
  /// Bytes of the largest of the pieces of `blocks` blocks into which the parts can be cut.
  std::size_t largest(int blocks) const;

  /// Bytes from the beginning of part 0 to block `block`; also for the block after the last.
  std::size_t offset(int block) const {
    if (has_equal_blocks()) return static_cast<std::size_t>(block) * count_ * element_size_;
    if (one_vector_ && (block == 0 || block == pieces_)) return block == 0 ? 0 : count_ * element_size_;
    return offset_of_piece(block);
  }
  /// All blocks are of one size, whatever the count is.
  bool has_equal_blocks() const { return pieces_ == 1 && prefix_.empty(); }
  bool is_one_vector() const { return one_vector_; }
  /// Blocks of a part, or of one vector.
  int pieces() const { return pieces_; }
  /// There is one part for each rank, and all are of one size.
  bool has_equal_parts() const { return !one_vector_ && prefix_.empty(); }

 private:
  std::size_t offset_of_piece(int block) const;

  std::span<const std::size_t> prefix_;  // empty: equal parts
  std::size_t count_ = 0;
  int pieces_ = 1;  // per part
  bool one_vector_ = false;
  std::size_t cut_size_ = 1;  // of an element, for the choice of where to cut
  std::size_t element_size_ = 1;
};

/// The blocks of one operation as memory: here, and only here, blocks become bytes.
struct Binding {
  struct CutBuffer {
    std::byte* origin = nullptr;  ///< where block 0 lies, or would lie if this rank held it
    Partition partition;
    std::span<std::byte> bytes(int first_block, int count) const;
    /// So many bytes after block 0 begins. Computed as a number: the origin may lie outside of any object, and who has
    /// no element may have no memory.
    std::byte* at(std::size_t offset) const {
      return reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(origin) + offset);
    }
  };
  CutBuffer input;
  CutBuffer output;
  CutBuffer contributions;  ///< to an average: what is sent of the input, each block made where it would lie
  std::byte* scratch = nullptr;
  std::vector<std::size_t> scratch_offset;  ///< slots + 1 entries, bytes

  std::span<std::byte> bytes(const algorithms::Blocks& blocks) const;

  /// Lays out the scratch slots of `plan`, as large as the blocks of that partition; returns how many bytes they need.
  std::size_t lay_out_scratch(const algorithms::Plan& plan, const Partition& like);
};

}  // namespace tutti::detail
