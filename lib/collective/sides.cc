#include "lib/collective/sides.h"

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

Sides sides_of(const Request& request, int rank, int ranks, int pipeline, PartOffsets& offsets) {
  const CollectiveTraits& traits = traits_of(request.collective);
  const std::size_t element_size = size_of(type_of(request));
  Sides sides;
  if (traits.input.extent == Extent::whole) {
    sides.input.partition = sides.output.partition =
        Partition::vector(request.input.count, ranks * pipeline, element_size);
  } else if (request.variable) {
    to_offsets(request.counts, offsets.input);
    to_offsets(request.recv_counts.empty() ? request.counts : request.recv_counts, offsets.output);
    sides.input.partition = Partition::parts(offsets.input, pipeline, element_size);
    sides.output.partition = Partition::parts(offsets.output, pipeline, element_size);
  } else {
    sides.input.partition = sides.output.partition =
        Partition::parts(part_count(request, static_cast<std::size_t>(ranks)), pipeline, element_size);
  }
  sides.own_input = traits.gathers();
  sides.own_output = traits.scatters();
  const auto own_part = [&](const Partition& partition) { return partition.offset(rank * pipeline); };
  sides.input.origin = origin(request.input.data, sides.own_input ? own_part(sides.input.partition) : 0);
  sides.output.origin = origin(request.output.data, sides.own_output ? own_part(sides.output.partition) : 0);
  return sides;
}

}  // namespace tutti::detail
