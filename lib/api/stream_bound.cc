#include "lib/api/stream_bound.h"

#include "lib/api/communicator_state.h"
#include "lib/base/collective_traits.h"
#include "lib/base/gpu/context.h"
#include "lib/base/wire_counts.h"
#include "lib/collective/call.h"

namespace tutti::detail {

void bind_on_device(const Request& request, int rank, cuda::Context context, cuda::Device device, PackedMemory& memory,
                    StreamBound& bound) {
  const CollectiveTraits& traits = traits_of(request.collective);
  const std::size_t element = size_of(type_of(request));
  bound.request = request;
  bound.request.counts = bound.counts = in_wire_elements(request.counts, request.input.unit);
  bound.request.recv_counts = bound.recv_counts = in_wire_elements(request.recv_counts, request.input.unit);
  bound.request.displacements = bound.request.recv_displacements = {};
  if (request.displacements.empty()) return;
  const cuda::Current current{context};
  const std::size_t caller_element = request.input.unit * element;
  if (traits.input.extent == Extent::parts && uses_input(request, rank)) {
    bound.collected = {request.input.data, element, bound.counts, caller_element, request.displacements};
    bound.copy_of_input = memory.input.get(device, bound.collected.bytes());
    bound.request.input.data = reinterpret_cast<const void*>(bound.copy_of_input);
    bound.request.input.count = bound.collected.bytes() / element;
  }
  if (traits.output.extent == Extent::parts && uses_output(request, rank)) {
    bound.spread = {request.output.data, element, bound.counts, caller_element, request.displacements};
    bound.copy_of_output = memory.output.get(device, bound.spread.bytes());
    bound.request.output.data = reinterpret_cast<void*>(bound.copy_of_output);
    bound.request.output.count = bound.spread.bytes() / element;
  }
}

}  // namespace tutti::detail
