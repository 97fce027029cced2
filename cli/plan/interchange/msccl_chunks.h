#pragma once

#include "algorithms/check.h"
#include "algorithms/partition.h"
#include "algorithms/plan.h"
#include "lib/base/collective_traits.h"
#include "tutti/types.h"

namespace tutti::cli::interchange {

/// The numbering of chunks. In a buffer that holds only the rank's own part, MSCCL's numbers begin with chunk 0; ours
/// are those of the whole vector.
class Chunks {
 public:
  Chunks(Collective collective, const algorithms::Shape& shape) : collective_(collective), shape_(shape) {}

  static char letter(algorithms::Buffer buffer) {
    return buffer == algorithms::Buffer::input ? 'i' : buffer == algorithms::Buffer::output ? 'o' : 's';
  }

  /// For input or output at this rank: the block that is chunk 0, and the number of chunks.
  int first(algorithms::Buffer buffer) const { return holds_own_part(buffer) ? shape_.rank * shape_.pipeline : 0; }
  int count(algorithms::Buffer buffer) const {
    if (!holds_any(buffer)) return 0;
    return holds_own_part(buffer) ? shape_.pipeline : shape_.ranks * shape_.pipeline;
  }
  int offset(const algorithms::Blocks& blocks) const {
    return blocks.buffer == algorithms::Buffer::scratch ? blocks.first : blocks.first - first(blocks.buffer);
  }

 private:
  bool holds_own_part(algorithms::Buffer buffer) const { return traits_of(buffer).extent == detail::Extent::own_part; }
  /// MSCCL's broadcast has an input at the root, ours only the output, which is the same memory in place.
  bool holds_any(algorithms::Buffer buffer) const { return traits_of(buffer).is_at(shape_.rank, shape_.root); }
  const detail::BufferTraits& traits_of(algorithms::Buffer buffer) const {
    const detail::CollectiveTraits& traits = detail::traits_of(collective_);
    return buffer == algorithms::Buffer::input ? traits.input : traits.output;
  }

  Collective collective_;
  algorithms::Shape shape_;
};

}  // namespace tutti::cli::interchange
