#include "lib/api/stream_bound.h"

#include <fmt/format.h>

#include "lib/api/communicator_state.h"
#include "lib/base/collective_traits.h"
#include "lib/base/gpu/context.h"
#include "lib/base/wire_counts.h"
#include "lib/collective/call.h"

namespace tutti::detail {

algorithms::StreamSlots slots_of(const transport::StreamLinks::Form& form, std::size_t element_size) {
  return {form.slot_bytes / element_size, form.slots};
}

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

void require_alignment(const std::string& name, const Request& request, int rank) {
  if (request.op == nullptr) return;
  const DataType type = type_of(request);
  const std::size_t element = size_of(type) / (type == DataType::c64 || type == DataType::c128 ? 2 : 1);
  const auto require = [&](const char* buffer, const void* data) {
    const cuda::Address address = cuda::address_of(data);
    if (address % element != 0)
      throw Error{ErrorCode::invalid_argument,
                  fmt::format("{}: {} begins at {:#x}, which is no multiple of {}: align its elements", name, buffer,
                              address, element)};
  };
  if (uses_input(request, rank)) require("in", request.input.data);
  if (uses_output(request, rank)) require("out", request.output.data);
}

void require_memory(const cuda::KnownContext& context) {
  if (!context.exists())
    throw Error{
        ErrorCode::invalid_argument,
        "the GPU's context in which this communicator has its memory has ended (cuCtxDestroy, cudaDeviceReset): "
        "make another communicator"};
}

void require_device(const std::string& name, const DeviceStream& stream, cuda::Device device) {
  if (stream.device() != device)
    throw Error{ErrorCode::invalid_argument,
                fmt::format("{}: the memory is on GPU {}, and earlier calls of this communicator were on GPU {}: give "
                            "memory of one GPU, or use another communicator",
                            name, stream.device(), device)};
}

}  // namespace tutti::detail
