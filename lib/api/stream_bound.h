#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "algorithms/stream_program.h"
#include "lib/base/gpu/memory.h"
#include "lib/gpu/device_parts.h"
#include "lib/gpu/device_stream.h"
#include "lib/gpu/growing_memory.h"
#include "transport/cuda_ipc/stream_links.h"
#include "tutti/request.h"

namespace tutti::detail {

/// A call on this rank's memory. Its buffers are those of the caller, or, where those have gaps, copies.
struct StreamBound {
  Request request;  ///< refers to the counts
  std::vector<std::size_t> counts, recv_counts;
  DeviceParts collected, spread;  ///< what goes to a copy before, and comes from one afterwards
  cuda::Address copy_of_input = 0, copy_of_output = 0;
};

/// Where those copies are, for one call after the other.
struct PackedMemory {
  GrowingMemory input, output;
};

/// What the calls of a communicator use, one after the other.
struct StreamMemory {
  GrowingMemory scratch;
  PackedMemory packed;
};

/// Lets parts lie one after the other. `context`: of `device`.
void bind_on_device(const Request& request, int rank, cuda::Context context, cuda::Device device, PackedMemory& memory,
                    StreamBound& bound);

/// Kernels load whole elements, of complex numbers each of the two. Throws Error{invalid_argument} where those of a
/// call that combines do not lie so.
void require_alignment(const std::string& name, const Request& request, int rank);

/// The slots of links, for elements of this size.
algorithms::StreamSlots slots_of(const transport::StreamLinks::Form& form, std::size_t element_size);

/// Throws Error{invalid_argument} if the context has ended in which a communicator has its memory.
void require_memory(const cuda::KnownContext& context);

/// Throws Error{invalid_argument} unless a call is on the GPU of the earlier ones.
void require_device(const std::string& name, const DeviceStream& stream, cuda::Device device);

}  // namespace tutti::detail
