#include "lib/board/row_call.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "lib/base/memory_units.h"

namespace tutti::detail {
namespace {

/// A sum of few slices would keep few ranks at work at the same time; shorter slices cost more waits.
constexpr std::size_t slices_at_least = 16;
constexpr std::size_t least_slice = std::size_t{16} * 1024;
/// How many times as long the elements of a sum can be as those of the vector.
constexpr std::size_t widest_sum = 4;

}  // namespace

bool RowCall::can_count_rounds_of(std::size_t bytes) {
  return std::cmp_less(bytes / (transport::Board::row_slot_bytes / widest_sum),
                       std::numeric_limits<int>::max() - rounds_late);
}

RowCall::RowCall(const algorithms::RowProgram& program, int rank, const Buffers& buffers, const Arithmetic& arithmetic,
                 compute::Copy copy_streaming)
    : program_(&program), buffers_(buffers), arithmetic_(arithmetic), copy_streaming_(copy_streaming) {
  // In place two ranks still have in their caches what they write (64 MiB by two cores of a Xeon: 12.9 ms past the
  // caches, 10.9 through them). More ranks have read too much since (8 ranks on them: 48 and 64 ms).
  if (buffers.in_place && program.row.size() == 2) copy_streaming_ = nullptr;
  const auto place = std::ranges::find(program.row, rank);
  if (place != program.row.begin()) before_ = *(place - 1);
  if (place + 1 != program.row.end()) next_ = *(place + 1);
  const std::size_t size = std::max(arithmetic.sum_size(), arithmetic.element_size());
  const std::size_t bytes = buffers.count * size / slices_at_least / page_bytes * page_bytes;
  slice_ = std::clamp(bytes, least_slice, transport::Board::row_slot_bytes) / size;
  slices_ = static_cast<int>((buffers.count + slice_ - 1) / slice_);
}

RowCall::Slice RowCall::of(int round) const {
  const std::size_t first = static_cast<std::size_t>(round) * slice_;
  return {first, std::min(slice_, buffers_.count - first)};
}

std::size_t RowCall::add(std::byte* slot, const std::byte* input, int round) const noexcept {
  const Slice slice = of(round);
  const std::byte* const own = input + slice.first * arithmetic_.element_size();
  const std::size_t bytes = slice.count * arithmetic_.sum_size();
  std::byte* const result = is_last() ? buffers_.output + slice.first * arithmetic_.element_size() : nullptr;
  if (arithmetic_.averages()) {
    if (before_ < 0) arithmetic_.begin(slot, own, slice.count);
    if (before_ >= 0) arithmetic_.contribute(slot, slot, own, slice.count);
  } else if (before_ < 0) {
    std::memcpy(slot, own, bytes);
  } else if (is_last() && !program_->is_spread) {
    const std::byte* const operands[] = {own, slot};
    arithmetic_.fold(result, operands, bytes, copy_streaming_ && result != own);
    return bytes;
  } else {
    combine(slot, own, bytes);
  }
  if (is_last()) write_result(slice, slot);
  return bytes;
}

/// sum = own op sum. A user's function cannot write to its right operand.
void RowCall::combine(std::byte* sum, const std::byte* own, std::size_t bytes) const noexcept {
  if (arithmetic_.is_symmetric()) return arithmetic_.combine(sum, own, sum, bytes);
  alignas(64) std::byte block[page_bytes];
  for (std::size_t begin = 0; begin < bytes; begin += page_bytes) {
    const std::size_t size = std::min(page_bytes, bytes - begin);
    arithmetic_.combine(block, own + begin, sum + begin, size);
    std::memcpy(sum + begin, block, size);
  }
}

std::size_t RowCall::take(const std::byte* slot, int round) const noexcept {
  const Slice slice = of(round - rounds_late);
  write_result(slice, slot);
  return slice.count * arithmetic_.sum_size();
}

void RowCall::write_result(const Slice& slice, const std::byte* slot) const noexcept {
  std::byte* const to = buffers_.output + slice.first * arithmetic_.element_size();
  const std::size_t bytes = slice.count * arithmetic_.element_size();
  if (arithmetic_.averages()) {
    arithmetic_.finish(to, slot, slice.count);
  } else if (copy_streaming_) {
    copy_streaming_(to, slot, bytes);
  } else {
    std::memcpy(to, slot, bytes);
  }
}

}  // namespace tutti::detail
