#include "lib/gpu/staging.h"

#include <algorithm>

#include "lib/base/collective_traits.h"
#include "lib/base/gpu/memory.h"

namespace tutti::detail {
namespace {

/// Counts in elements of the caller's become counts in elements of the wire.
std::vector<std::size_t> scaled(std::span<const std::size_t> counts, std::size_t unit) {
  std::vector<std::size_t> scaled{counts.begin(), counts.end()};
  for (std::size_t& count : scaled) count *= unit;
  return scaled;
}

}  // namespace

Staging::Staging(const Request& request, int rank)
    : request_(request),
      counts_(scaled(request.counts, request.input.unit)),
      recv_counts_(scaled(request.recv_counts, request.input.unit)) {
  const CollectiveTraits& traits = traits_of(request.collective);
  const bool one_buffer = traits.in_place == InPlace::always;
  const bool reads = traits.input.is_at(rank, request.root);
  const bool writes = traits.output.is_at(rank, request.root) && !(one_buffer && reads);
  if (reads) lay_out(input_, request.input, traits.input.extent == Extent::parts, counts_, request.displacements);
  if (writes)
    lay_out(output_, request.output, traits.output.extent == Extent::parts, traits.exchanges() ? recv_counts_ : counts_,
            traits.exchanges() ? request.recv_displacements : request.displacements);
  // In place on the device, in place here: but a call that may not be gets its copy of the input for nothing.
  const bool in_place = request.input.data == request.output.data && traits.in_place != InPlace::never;
  const std::size_t apart = in_place ? 0 : (input_.bytes + 63) / 64 * 64;
  output_.in_memory = apart;
  memory_ = PinnedMemory::take(apart + std::max(input_.bytes, output_.bytes));

  const std::size_t element = size_of(request.input.type);
  request_.counts = counts_;
  request_.recv_counts = recv_counts_;
  request_.displacements = request_.recv_displacements = {};
  request_.input.unit = request_.output.unit = 1;
  request_.input.data = reads || one_buffer ? memory_.data() : nullptr;
  request_.output.data = writes || one_buffer ? memory_.data() + apart : nullptr;
  if (reads) request_.input.count = input_.bytes / element;
  if (writes) request_.output.count = output_.bytes / element;
}

Staging::Staging(const ConstBuffer& sent) : request_{.collective = Collective::barrier, .input = sent, .output = {}} {
  lay_out(input_, sent, false, {}, {});
  memory_ = PinnedMemory::take(input_.bytes);
  request_.input.data = memory_.data();
}

/// What the message does not fill is to stay, so it is copied, too.
Staging::Staging(const Buffer& received)
    : request_{.collective = Collective::barrier, .input = {}, .output = received} {
  lay_out(input_, received, false, {}, {});
  output_ = input_;
  memory_ = PinnedMemory::take(output_.bytes);
  request_.output.data = memory_.data();
}

template <class Caller>
void Staging::lay_out(Side& side, const Caller& caller, bool has_parts, std::span<const std::size_t> counts,
                      std::span<const std::size_t> displacements) const {
  const std::size_t element = size_of(caller.type);
  side.on_device = cuda::address_of(caller.data);
  if (!has_parts || displacements.empty()) {
    side.bytes = caller.count * element;
    side.pieces.push_back({0, 0, side.bytes});
    return;
  }
  for (std::size_t part = 0; part < counts.size(); ++part) {
    side.pieces.push_back({displacements[part] * caller.unit * element, side.bytes, counts[part] * element});
    side.bytes += counts[part] * element;
  }
}

void Staging::copy_input(cuda::Commands& commands) const {
  const cuda::Address copy = cuda::address_of(memory_.data()) + input_.in_memory;
  for (const Piece& piece : input_.pieces)
    commands.copy_by_engine(copy + piece.in_memory, input_.on_device + piece.on_device, piece.bytes);
}

void Staging::copy_output(cuda::Commands& commands) const {
  const cuda::Address copy = cuda::address_of(memory_.data()) + output_.in_memory;
  for (const Piece& piece : output_.pieces)
    commands.copy_by_engine(output_.on_device + piece.on_device, copy + piece.in_memory, piece.bytes);
}

void Staging::copy_output(cuda::Commands& commands, std::size_t bytes) const {
  commands.copy_by_engine(output_.on_device, cuda::address_of(memory_.data()), bytes);
}

}  // namespace tutti::detail
