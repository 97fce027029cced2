#include "lib/gpu/staging.h"

#include <algorithm>

#include "lib/base/collective_traits.h"
#include "lib/base/gpu/memory.h"
#include "lib/base/wire_counts.h"

namespace tutti::detail {
namespace {

/// `counts` of a buffer that has parts, in elements of the wire; else none.
template <class Caller>
DeviceParts parts_of(const Caller& caller, std::span<const std::size_t> counts,
                     std::span<const std::size_t> displacements) {
  const std::size_t element = size_of(caller.type);
  if (counts.empty() || displacements.empty()) return {caller.data, caller.count * element};
  return {caller.data, element, counts, caller.unit * element, displacements};
}

}  // namespace

Staging::Staging(const Request& request, int rank)
    : request_(request),
      counts_(in_wire_elements(request.counts, request.input.unit)),
      recv_counts_(in_wire_elements(request.recv_counts, request.input.unit)) {
  const CollectiveTraits& traits = traits_of(request.collective);
  const bool one_buffer = traits.in_place == InPlace::always;
  const bool reads = traits.input.is_at(rank, request.root);
  const bool writes = traits.output.is_at(rank, request.root) && !(one_buffer && reads);
  const auto counts_in = [&](const BufferTraits& buffer, const std::vector<std::size_t>& counts) {
    return buffer.extent == Extent::parts ? std::span<const std::size_t>{counts} : std::span<const std::size_t>{};
  };
  if (reads) input_.parts = parts_of(request.input, counts_in(traits.input, counts_), request.displacements);
  if (writes)
    output_.parts = parts_of(request.output, counts_in(traits.output, traits.exchanges() ? recv_counts_ : counts_),
                             traits.exchanges() ? request.recv_displacements : request.displacements);
  // In place on the device, in place here: but a call that may not be gets its copy of the input for nothing. Parts
  // with displacements lie elsewhere here, in another order perhaps, and where the two begin says nothing.
  const bool moves_parts = !request.displacements.empty() || !request.recv_displacements.empty();
  const bool in_place = !moves_parts && request.input.data == request.output.data && traits.in_place != InPlace::never;
  const std::size_t apart = in_place ? 0 : (input_.parts.bytes() + 63) / 64 * 64;
  output_.in_memory = apart;
  memory_ = PinnedMemory::take(apart + std::max(input_.parts.bytes(), output_.parts.bytes()));

  const std::size_t element = size_of(request.input.type);
  request_.counts = counts_;
  request_.recv_counts = recv_counts_;
  request_.displacements = request_.recv_displacements = {};
  request_.input.unit = request_.output.unit = 1;
  request_.input.data = reads || one_buffer ? memory_.data() : nullptr;
  request_.output.data = writes || one_buffer ? memory_.data() + apart : nullptr;
  if (reads) request_.input.count = input_.parts.bytes() / element;
  if (writes) request_.output.count = output_.parts.bytes() / element;
}

Staging::Staging(const ConstBuffer& sent)
    : request_{.collective = Collective::barrier, .input = sent, .output = {}}, stream_waits_(false) {
  input_.parts = parts_of(sent, {}, {});
  memory_ = PinnedMemory::take(input_.parts.bytes());
  request_.input.data = memory_.data();
}

/// What the message does not fill is to stay, so it is copied, too.
Staging::Staging(const Buffer& received)
    : request_{.collective = Collective::barrier, .input = {}, .output = received} {
  input_.parts = parts_of(received, {}, {});
  output_ = input_;
  memory_ = PinnedMemory::take(output_.parts.bytes());
  request_.output.data = memory_.data();
}

void Staging::copy_input(cuda::Commands& commands) const {
  input_.parts.collect(commands, cuda::address_of(memory_.data()) + input_.in_memory,
                       DeviceParts::CopyIn::pinned_memory);
}

void Staging::copy_output(cuda::Commands& commands) const {
  output_.parts.spread(commands, cuda::address_of(memory_.data()) + output_.in_memory,
                       DeviceParts::CopyIn::pinned_memory);
}

void Staging::copy_output(cuda::Commands& commands, std::size_t bytes) const {
  commands.copy_by_engine(output_.parts.address(), cuda::address_of(memory_.data()), bytes);
}

}  // namespace tutti::detail
