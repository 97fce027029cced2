#include "lib/collective/call_buffers.h"

#include <cstdint>

#include "lib/base/collective_traits.h"
#include "lib/collective/call.h"

namespace tutti::detail {
namespace {

void to_offsets(std::span<const std::size_t> counts, std::vector<std::size_t>& offsets) {
  offsets.resize(counts.size() + 1);
  offsets[0] = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) offsets[i + 1] = offsets[i] + counts[i];
}

}  // namespace

std::byte* origin(const void* data, std::size_t offset) {
  return reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(data) - offset);
}

CallBuffers buffers_of(const Request& request, int rank, int ranks, int pipeline, PartOffsets& offsets) {
  const CollectiveTraits& traits = traits_of(request.collective);
  const std::size_t element_size = size_of(type_of(request));
  CallBuffers buffers;
  if (traits.input.extent == Extent::whole) {
    buffers.input.partition = buffers.output.partition =
        Partition::vector(request.input.count, ranks * pipeline, element_size);
  } else if (request.variable) {
    to_offsets(request.counts, offsets.input);
    to_offsets(request.recv_counts.empty() ? request.counts : request.recv_counts, offsets.output);
    buffers.input.partition = Partition::parts(offsets.input, pipeline, element_size);
    buffers.output.partition = Partition::parts(offsets.output, pipeline, element_size);
  } else {
    buffers.input.partition = buffers.output.partition =
        Partition::parts(part_count(request, static_cast<std::size_t>(ranks)), pipeline, element_size);
  }
  buffers.own_input = traits.gathers();
  buffers.own_output = traits.scatters();
  const auto own_part = [&](const Partition& partition) { return partition.offset(rank * pipeline); };
  buffers.input.origin = origin(request.input.data, buffers.own_input ? own_part(buffers.input.partition) : 0);
  buffers.output.origin = origin(request.output.data, buffers.own_output ? own_part(buffers.output.partition) : 0);
  return buffers;
}

}  // namespace tutti::detail
