// Where the steps of an operation find their bytes, and what an average makes of those.

#include <cstring>
#include <new>
#include <utility>

#include "lib/collective/operation.h"
#include "lib/compute/float_environment.h"
#include "lib/group/context.h"
#include "lib/group/group.h"

namespace tutti::detail {
namespace {

constexpr std::align_val_t alignment{64};

std::size_t round_up(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

void Operation::FreeBytes::operator()(std::byte* bytes) const noexcept { ::operator delete(bytes, alignment); }

void Operation::bind_to_board(const Request& request, const Planned& planned, std::size_t capacity) {
  const BoardCall::Ground ground{group_->rank(), group_->size(), *group_->context().kernels, capacity};
  board_ = BoardCall::of(request, *prepared_, planned.location, ground, offsets_);
  if (!arithmetic_.premultiplies() || !request.op) return;
  std::byte* const multiplied = memory(request.input.count * arithmetic_.element_size());
  board_->contribute_instead(multiplied);
  const compute::FloatEnvironment environment;
  arithmetic_.premultiply(multiplied, request.input.data, request.input.count);
}

void Operation::bind(const Request& request) {
  const Sides sides = sides_of(request, group_->rank(), group_->size(), plan().shape.pipeline, offsets_);
  binding_.input = sides.input;
  binding_.output = sides.output;
  // A barrier moves tokens.
  if (request.collective == Collective::barrier)
    binding_.input.partition = binding_.output.partition =
        Partition::parts(static_cast<std::size_t>(plan().shape.pipeline), plan().shape.pipeline, 1);
  if (arithmetic_.averages()) return bind_average(request);
  scratch_bytes_ = round_up(binding_.lay_out_scratch(plan(), binding_.input.partition));
  binding_.scratch = memory(scratch_bytes_ + staged_bytes(request));
  stage(request);
}

/// Input blocks are elements, all others sums. In place these may not replace elements that are yet to be read.
void Operation::bind_average(const Request& request) {
  const std::size_t size = arithmetic_.sum_size();
  const bool apart = size != arithmetic_.element_size() || prepared_->reads_copied_blocks;
  const Partition sums = binding_.input.partition.with_elements_of(size);
  scratch_bytes_ = round_up(binding_.lay_out_scratch(plan(), sums));
  const std::size_t contributed = round_up(request.input.count * size);
  binding_.scratch = memory(scratch_bytes_ + contributed + (apart ? request.output.count * size : 0));
  binding_.contributions = {binding_.scratch + scratch_bytes_, sums};
  binding_.output.partition = sums;
  result_ = static_cast<std::byte*>(request.output.data);
  if (!apart) return;
  const std::size_t skipped =
      traits_of(request.collective).scatters() ? sums.offset(group_->rank() * plan().shape.pipeline) : 0;
  binding_.output.origin = origin(binding_.contributions.origin + contributed, skipped);
}

/// What the plan reads is a copy: contributions multiplied beforehand, parts that would be overwritten before they are
/// sent, or the tokens of a barrier. 0: it reads the input.
std::size_t Operation::staged_bytes(const Request& request) const {
  const bool barrier = request.collective == Collective::barrier;
  const bool premultiplied = arithmetic_.premultiplies() && request.op;
  const bool copied_in_place =
      traits_of(request.collective).in_place == InPlace::never && request.input.data == request.output.data;
  if (barrier) return static_cast<std::size_t>(group_->size()) * static_cast<std::size_t>(plan().shape.pipeline);
  return premultiplied || copied_in_place ? request.input.count * arithmetic_.element_size() : 0;
}

void Operation::stage(const Request& request) {
  const std::size_t bytes = staged_bytes(request);
  if (bytes == 0) return;
  std::byte* copy = binding_.scratch + scratch_bytes_;
  if (request.collective == Collective::barrier) {
    std::memset(copy, 0, bytes);
    binding_.output.origin = copy;
  } else if (arithmetic_.premultiplies()) {
    const compute::FloatEnvironment environment;
    arithmetic_.premultiply(copy, request.input.data, request.input.count);
  } else {
    std::memcpy(copy, request.input.data, bytes);
  }
  binding_.input.origin = copy;
}

std::byte* Operation::memory(std::size_t bytes) {
  if (bytes > memory_size_) {
    memory_.reset();
    memory_size_ = 0;
    memory_.reset(static_cast<std::byte*>(::operator new(bytes, alignment)));
    memory_size_ = bytes;
  }
  return memory_.get();
}

// ---- Combining -------------------------------------------------------------------------------------------------

std::size_t Operation::bytes_moved(const algorithms::Blocks& blocks) const {
  const std::size_t bytes = binding_.bytes(blocks).size();
  return is_contributed(blocks) ? bytes / arithmetic_.element_size() * arithmetic_.sum_size() : bytes;
}

std::span<const std::byte> Operation::payload(const algorithms::Blocks& blocks) noexcept {
  if (!is_contributed(blocks)) return binding_.bytes(blocks);
  for (int block = blocks.first; block < blocks.first + blocks.count; ++block) {
    const auto index = static_cast<std::size_t>(block);
    if (contributed_[index]) continue;
    contributed_[index] = true;
    begin_contribution(binding_.contributions.bytes(block, 1).data(), binding_.input.bytes(block, 1));
  }
  return binding_.contributions.bytes(blocks.first, blocks.count);
}

void Operation::begin_contribution(std::byte* to, std::span<const std::byte> elements) noexcept {
  const compute::FloatEnvironment environment;
  arithmetic_.begin(to, elements.data(), elements.size() / arithmetic_.element_size());
}

void Operation::reduce(const algorithms::Step& step) noexcept {
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

void Operation::combine_piece(const algorithms::Step& step, std::size_t offset,
                              std::span<const std::byte> piece) noexcept {
  const compute::FloatEnvironment environment;
  std::byte* const to = binding_.bytes(step.dst).data() + offset;
  const std::byte* const left = binding_.bytes(step.left).data();
  if (!is_contributed(step.left)) return arithmetic_.combine(to, left + offset, piece.data(), piece.size());
  const std::size_t size = arithmetic_.sum_size();
  arithmetic_.contribute(to, piece.data(), left + offset / size * arithmetic_.element_size(), piece.size() / size);
}

void Operation::finish_average(std::span<const std::byte> sums) noexcept {
  const compute::FloatEnvironment environment;
  arithmetic_.finish(result_, sums.data(), sums.size() / arithmetic_.sum_size());
}

}  // namespace tutti::detail
