#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "algorithms/plan.h"
#include "tutti/types.h"

namespace tutti::detail {

/// Where piece number `piece` begins if `count` elements are cut into `pieces` balanced pieces. They consist of whole
/// cache lines, or of single elements if there are too few for that, and differ by one such unit at most.
std::size_t piece_offset(std::size_t count, std::size_t pieces, std::size_t piece, std::size_t element_size);

/// How one buffer is cut into the blocks of which plans speak.
class Partition {
 public:
  /// The partition of a call: of a vector of `count` elements, or of parts of `count` elements each. The same on every
  /// rank.
  static Partition of(Collective collective, std::size_t count, int ranks, int pipeline, std::size_t element_size);
  /// One vector of `count` elements, cut into `blocks` balanced blocks.
  static Partition vector(std::size_t count, int blocks, std::size_t element_size);
  /// Equal parts of `count` elements, each cut into `pipeline` blocks.
  static Partition parts(std::size_t count, int pipeline, std::size_t element_size);
  /// Parts of counts[k] elements one after the other. `prefix` has ranks + 1 entries and must outlive the partition.
  static Partition parts(std::span<const std::size_t> prefix, int pipeline, std::size_t element_size);

  /// The same cuts for elements of another size.
  Partition with_elements_of(std::size_t size) const;
  /// If parts, or the vector, are cut into pieces of `blocks` blocks: the bytes of the largest piece.
  std::size_t largest(int blocks) const;

  /// Bytes from the beginning of part 0 to block `block`; also for the block after the last.
  std::size_t offset(int block) const {
    if (has_equal_blocks()) return static_cast<std::size_t>(block) * count_ * element_size_;
    if (one_vector_ && (block == 0 || block == pieces_)) return block == 0 ? 0 : count_ * element_size_;
    return offset_of_piece(block);
  }
  /// Whether all blocks have one size for every count.
  bool has_equal_blocks() const { return pieces_ == 1 && prefix_.empty(); }
  bool is_one_vector() const { return one_vector_; }
  /// Blocks per part, or of the vector.
  int pieces() const { return pieces_; }
  /// Whether there is one part for each rank, all of one size.
  bool has_equal_parts() const { return !one_vector_ && prefix_.empty(); }

 private:
  std::size_t offset_of_piece(int block) const;

  std::span<const std::size_t> prefix_;  // empty: equal parts
  std::size_t count_ = 0;
  int pieces_ = 1;  // per part
  bool one_vector_ = false;
  std::size_t cut_size_ = 1;  // size of an element when choosing where to cut
  std::size_t element_size_ = 1;
};

/// The blocks of one operation as memory. Only here do blocks become bytes.
struct Binding {
  struct CutBuffer {
    std::byte* origin = nullptr;  ///< where block 0 lies, or would lie if this rank held it
    Partition partition;
    std::span<std::byte> bytes(int first_block, int count) const;
    /// The address `offset` bytes behind the beginning of block 0. It is computed as a number, since the origin may lie
    /// outside of any object, and a rank without elements may have no memory.
    std::byte* at(std::size_t offset) const {
      return reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(origin) + offset);
    }
  };
  CutBuffer input;
  CutBuffer output;
  /// For an average: what is sent in place of the input. Each block is made where it would lie.
  CutBuffer contributions;
  std::byte* scratch = nullptr;
  std::vector<std::size_t> scratch_offset;  ///< slots + 1 entries, bytes

  std::span<std::byte> bytes(const algorithms::Blocks& blocks) const;

  /// Lays out the scratch slots of `plan`, each as large as the block of `like` that it stands for; returns the bytes
  /// that they need.
  std::size_t lay_out_scratch(const algorithms::Plan& plan, const Partition& like);
};

}  // namespace tutti::detail
