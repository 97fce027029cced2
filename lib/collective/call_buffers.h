#pragma once

#include <cstddef>
#include <vector>

#include "lib/collective/binding.h"
#include "tutti/communicator.h"

namespace tutti::detail {

/// Where the parts of a _v call begin, in elements: those of its input, and those of its output.
struct PartOffsets {
  std::vector<std::size_t> input;
  std::vector<std::size_t> output;
};

/// Input and output of a call, cut into the blocks of its plan.
struct CallBuffers {
  Binding::CutBuffer input;
  Binding::CutBuffer output;
  bool own_input = false;  ///< it holds this rank's part only
  bool own_output = false;
};

/// `request` has been checked. `offsets` is filled for a _v call, and must be kept as long as the result.
CallBuffers buffers_of(const Request& request, int rank, int ranks, int pipeline, PartOffsets& offsets);
/// Where block 0 would lie if `data` begins at byte `offset` of the whole. The address is only for arithmetic.
std::byte* origin(const void* data, std::size_t offset);

}  // namespace tutti::detail
