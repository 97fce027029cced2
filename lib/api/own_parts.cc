#include "lib/api/own_parts.h"

#include <cstring>

#include "lib/base/collective_traits.h"
#include "lib/base/wire_counts.h"

namespace tutti::detail {

OwnParts::OwnParts(const Request& request, int rank)
    : request_(request),
      counts_(in_wire_elements(request.counts, request.input.unit)),
      recv_counts_(in_wire_elements(request.recv_counts, request.input.unit)),
      caller_input_(static_cast<const std::byte*>(request.input.data)),
      caller_output_(static_cast<std::byte*>(request.output.data)) {
  request_.counts = counts_;
  request_.recv_counts = recv_counts_;
  const std::size_t element = size_of(request.input.type);
  const CollectiveTraits& traits = traits_of(request.collective);
  const auto has_parts = [&](const auto& buffer) {
    return buffer.extent == Extent::parts && buffer.is_at(rank, request.root);
  };
  if (has_parts(traits.input) && !request.displacements.empty()) {
    move(input_, counts_, request.displacements);
    request_.input.data = input_.memory.data();
    request_.input.count = input_.memory.size() / element;
  }
  const auto displacements = traits.exchanges() ? request.recv_displacements : request.displacements;
  if (has_parts(traits.output) && !displacements.empty()) {
    move(output_, traits.exchanges() ? recv_counts_ : counts_, displacements);
    request_.output.data = output_.memory.data();
    request_.output.count = output_.memory.size() / element;
  }
  request_.displacements = request_.recv_displacements = {};
}

void OwnParts::move(Moved& moved, std::span<const std::size_t> counts,
                    std::span<const std::size_t> displacements) const {
  const std::size_t element = size_of(request_.input.type);
  std::size_t total = 0;
  for (std::size_t part = 0; part < counts.size(); ++part) {
    moved.parts.push_back({displacements[part] * request_.input.unit * element, counts[part] * element});
    total += moved.parts.back().size;
  }
  moved.memory.resize(total);
}

void OwnParts::collect_input() noexcept {
  std::byte* to = input_.memory.data();
  for (const Part& part : input_.parts) {
    if (part.size > 0) std::memcpy(to, caller_input_ + part.begin, part.size);
    to += part.size;
  }
}

void OwnParts::spread_output() const noexcept {
  const std::byte* from = output_.memory.data();
  for (const Part& part : output_.parts) {
    if (part.size > 0) std::memcpy(caller_output_ + part.begin, from, part.size);
    from += part.size;
  }
}

}  // namespace tutti::detail
