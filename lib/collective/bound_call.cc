#include "lib/collective/bound_call.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "lib/compute/float_environment.h"

namespace tutti::detail {
namespace {

constexpr std::align_val_t alignment{64};

/// Messages go on between the pieces of a longer copy, in a call that has any (gather of 16 MiB to one of 2 ranks on a
/// Zen 4: 960 us in one piece, 800 in pieces of 1 MiB, 640 so).
constexpr std::size_t most_at_once = std::size_t{256} * 1024;

std::size_t round_up(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

void ScratchMemory::Free::operator()(std::byte* bytes) const noexcept { ::operator delete(bytes, alignment); }

std::byte* ScratchMemory::get(std::size_t bytes) {
  if (bytes > size_) {
    memory_.reset();
    size_ = 0;
    memory_.reset(static_cast<std::byte*>(::operator new(bytes, alignment)));
    size_ = bytes;
  }
  return memory_.get();
}

void BoundCall::bind(const Request& request, const Planned& planned, const BoardCall::Ground& ground) {
  ground_ = ground;
  prepared_ = &planned.prepared;
  collective_ = request.collective;
  const Op& op = collective_ == Collective::barrier ? bor : request.op ? *request.op : sum;
  arithmetic_ = Arithmetic{*ground.kernels, type_of(request), op, ground.ranks};
  const bool in_place = traits_of(collective_).in_place != InPlace::always && request.input.data == request.output.data;
  streams_ =
      !in_place && !arithmetic_.averages() && compute::streams(request.output.count * arithmetic_.element_size());
  board_.reset();
  if (ground.capacity > 0) {
    bind_to_board(request, planned);
  } else if (bound_to_ != &request) {
    bind_to_links(request);
  }
  bound_to_ = request.persistent && ground.capacity == 0 ? &request : nullptr;
}

void BoundCall::begin() {
  stage();
  if (arithmetic_.averages() && !board_)
    contributed_.assign(static_cast<std::size_t>(ground_.ranks) * static_cast<std::size_t>(plan().shape.pipeline),
                        false);
}

void BoundCall::release() noexcept {
  arithmetic_ = {};
  board_.reset();
}

void BoundCall::bind_to_board(const Request& request, const Planned& planned) {
  board_ = BoardCall::of(request, *prepared_, planned.location, ground_, offsets_);
  staged_ = {};
  if (!arithmetic_.premultiplies() || !request.op) return;
  input_ = request.input;
  const std::size_t bytes = request.input.count * arithmetic_.element_size();
  staged_ = {memory_.get(bytes), bytes};
  board_->contribute_instead(staged_.data());
}

void BoundCall::bind_to_links(const Request& request) {
  const CallBuffers buffers = buffers_of(request, ground_.rank, ground_.ranks, plan().shape.pipeline, offsets_);
  binding_.input = buffers.input;
  binding_.output = buffers.output;
  // A barrier moves tokens.
  if (collective_ == Collective::barrier)
    binding_.input.partition = binding_.output.partition =
        Partition::parts(static_cast<std::size_t>(plan().shape.pipeline), plan().shape.pipeline, 1);
  staged_ = {};
  if (arithmetic_.averages()) return bind_average(request);
  scratch_bytes_ = round_up(binding_.lay_out_scratch(plan(), binding_.input.partition));
  const std::size_t staged = staged_bytes(request);
  binding_.scratch = memory_.get(scratch_bytes_ + staged);
  if (staged == 0) return;
  input_ = request.input;
  staged_ = {binding_.scratch + scratch_bytes_, staged};
  binding_.input.origin = staged_.data();
  if (collective_ == Collective::barrier) binding_.output.origin = staged_.data();
}

/// Blocks of the input are elements, all others are sums. In place, sums must not overwrite elements that are still to
/// be read.
void BoundCall::bind_average(const Request& request) {
  const std::size_t size = arithmetic_.sum_size();
  const bool apart = size != arithmetic_.element_size() || prepared_->reads_copied_blocks;
  const Partition sums = binding_.input.partition.with_elements_of(size);
  scratch_bytes_ = round_up(binding_.lay_out_scratch(plan(), sums));
  const std::size_t contributed = round_up(request.input.count * size);
  binding_.scratch = memory_.get(scratch_bytes_ + contributed + (apart ? request.output.count * size : 0));
  binding_.contributions = {binding_.scratch + scratch_bytes_, sums};
  binding_.output.partition = sums;
  result_ = static_cast<std::byte*>(request.output.data);
  if (!apart) return;
  const std::size_t skipped = traits_of(collective_).scatters() ? sums.offset(ground_.rank * plan().shape.pipeline) : 0;
  binding_.output.origin = origin(binding_.contributions.origin + contributed, skipped);
}

bool BoundCall::stages(const Request& request) noexcept {
  const bool premultiplied = request.op && request.op->kind() == OpKind::premul_sum;
  const bool copied_in_place =
      traits_of(request.collective).in_place == InPlace::never && request.input.data == request.output.data;
  return request.collective == Collective::barrier || premultiplied || copied_in_place;
}

/// Bytes of the copy that the plan reads instead of the input. 0: it reads the input.
std::size_t BoundCall::staged_bytes(const Request& request) const {
  if (collective_ == Collective::barrier)
    return static_cast<std::size_t>(ground_.ranks) * static_cast<std::size_t>(plan().shape.pipeline);
  return stages(request) ? request.input.count * arithmetic_.element_size() : 0;
}

void BoundCall::stage() noexcept {
  if (staged_.empty()) return;
  if (collective_ == Collective::barrier) {
    std::memset(staged_.data(), 0, staged_.size());
  } else if (arithmetic_.premultiplies()) {
    const compute::FloatEnvironment environment;
    arithmetic_.premultiply(staged_.data(), input_.data, input_.count);
  } else {
    std::memcpy(staged_.data(), input_.data, staged_.size());
  }
}

// ---- Combining -------------------------------------------------------------------------------------------------

std::size_t BoundCall::bytes_moved(const algorithms::Step& step) const {
  const algorithms::Blocks& blocks = step.verb == algorithms::Verb::send ? step.left : step.dst;
  const std::size_t bytes = binding_.bytes(blocks).size();
  return is_contributed(blocks) ? bytes / arithmetic_.element_size() * arithmetic_.sum_size() : bytes;
}

std::span<const std::byte> BoundCall::payload(const algorithms::Step& step) noexcept {
  const algorithms::Blocks& blocks = step.left;
  if (!is_contributed(blocks)) return binding_.bytes(blocks);
  for (int block = blocks.first; block < blocks.first + blocks.count; ++block) {
    const auto index = static_cast<std::size_t>(block);
    if (contributed_[index]) continue;
    contributed_[index] = true;
    begin_contribution(binding_.contributions.bytes(block, 1).data(), binding_.input.bytes(block, 1));
  }
  return binding_.contributions.bytes(blocks.first, blocks.count);
}

compute::Copy BoundCall::copy_of(std::uint32_t step) const noexcept {
  const bool ends_there =
      plan().steps[step].dst.buffer == algorithms::Buffer::output && plan().successors(step).empty();
  return streams_ && ends_there ? ground_.kernels->copy_streaming : nullptr;
}

BoundCall::Piece BoundCall::copy_piece(std::uint32_t step, std::uint32_t piece) noexcept {
  return copy_bytes(step, piece * most_at_once, plan().lanes.empty() ? ~std::size_t{0} : most_at_once);
}

/// At most `most` bytes from `begin` on; contributions are made at once.
BoundCall::Piece BoundCall::copy_bytes(std::uint32_t id, std::size_t begin, std::size_t most) noexcept {
  const algorithms::Step& step = plan().steps[id];
  const auto to = binding_.bytes(step.dst);
  const auto from = binding_.bytes(step.left);
  if (is_contributed(step.left)) {
    begin_contribution(to.data(), from);
    return {to.size(), true};
  }
  if (to.data() == from.data() || to.empty()) return {0, true};
  const std::size_t bytes = std::min(to.size() - begin, most);
  if (const compute::Copy streaming = copy_of(id)) {
    streaming(to.data() + begin, from.data() + begin, bytes);
  } else {
    std::memcpy(to.data() + begin, from.data() + begin, bytes);
  }
  return {bytes, begin + bytes == to.size()};
}

void BoundCall::begin_contribution(std::byte* to, std::span<const std::byte> elements) noexcept {
  const compute::FloatEnvironment environment;
  arithmetic_.begin(to, elements.data(), elements.size() / arithmetic_.element_size());
}

void BoundCall::reduce(const algorithms::Step& step) noexcept {
  const compute::FloatEnvironment environment;
  const auto to = binding_.bytes(step.dst);
  const std::byte* left = binding_.bytes(step.left).data();
  const std::byte* right = binding_.bytes(step.right).data();
  const bool left_contributes = is_contributed(step.left), right_contributes = is_contributed(step.right);
  const std::size_t count = to.size() / arithmetic_.sum_size();
  if (!left_contributes && !right_contributes) return arithmetic_.combine(to.data(), left, right, to.size());
  if (!right_contributes || (left_contributes && right == to.data())) std::swap(left, right);
  if (left_contributes && right_contributes) {
    arithmetic_.begin(to.data(), left, count);
    left = to.data();
  }
  arithmetic_.contribute(to.data(), left, right, count);
}

void BoundCall::reduce_piece(const algorithms::Step& step, std::size_t offset,
                             std::span<const std::byte> piece) noexcept {
  const compute::FloatEnvironment environment;
  std::byte* const to = binding_.bytes(step.dst).data() + offset;
  const std::byte* const left = binding_.bytes(step.left).data();
  if (!is_contributed(step.left)) return arithmetic_.combine(to, left + offset, piece.data(), piece.size());
  const std::size_t size = arithmetic_.sum_size();
  arithmetic_.contribute(to, piece.data(), left + offset / size * arithmetic_.element_size(), piece.size() / size);
}

void BoundCall::finish(int root) noexcept {
  const CollectiveTraits& traits = traits_of(collective_);
  if (board_ || !arithmetic_.averages() || !traits.output.is_at(ground_.rank, root)) return;
  const int pipeline = plan().shape.pipeline;
  const int first = traits.scatters() ? ground_.rank * pipeline : 0;
  const int blocks = traits.scatters() ? pipeline : pipeline * ground_.ranks;
  const std::span<const std::byte> sums = binding_.bytes({algorithms::Buffer::output, first, blocks});
  const compute::FloatEnvironment environment;
  arithmetic_.finish(result_, sums.data(), sums.size() / arithmetic_.sum_size());
}

}  // namespace tutti::detail
