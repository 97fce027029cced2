#include "lib/collective/arithmetic.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace tutti::detail {
namespace {

/// The sums of an average are computed in blocks of this size, a few of which fit into any first-level cache.
struct alignas(64) Block {
  std::byte bytes[4096];
};

}  // namespace

Arithmetic::Arithmetic(const compute::Table& table, DataType type, const Op& op, int ranks)
    : op_(op), kernels_(&compute::kernels(table, type)), element_size_(size_of(type)), sum_size_(element_size_) {
  if (op.kind() == OpKind::avg) {
    combine_ = kernels_->average.add;
    sum_size_ = kernels_->average.size;
    // A wider sum needs no scaling. All of it is exact: the power of two, and the number of ranks.
    const bool is_wide = sum_size_ != element_size_;
    const auto power = static_cast<double>(std::bit_ceil(static_cast<unsigned>(ranks)));
    factor_ = is_wide ? 1 : 1 / power;
    divisor_ = is_wide ? ranks : ranks / power;
  } else if (op.kind() == OpKind::user) {
    begin_again();
  } else {
    combine_ = kernels_->combine[static_cast<int>(op.kind())];
  }
}

void Arithmetic::combine(std::byte* dst, const std::byte* left, const std::byte* right,
                         std::size_t bytes) const noexcept {
  if (bytes == 0) return;
  if (combine_) return combine_(dst, left, right, bytes / sum_size_);
  if (dst != left) std::memcpy(dst, left, bytes);
  const compute::FloatEnvironment environment{caller_};
  (*op_.function())(dst, right, bytes / element_size_);
}

void Arithmetic::fold(std::byte* dst, std::span<const std::byte* const> sources, std::size_t bytes,
                      bool streaming) const noexcept {
  if (bytes == 0) return;
  if (averages()) return average(dst, sources, bytes / element_size_);
  if (sources.size() == 2 && !streaming) return combine(dst, sources[0], sources[1], bytes);
  if (op_.kind() == OpKind::user) {
    if (dst != sources.front()) std::memcpy(dst, sources.front(), bytes);
    for (const std::byte* const source : sources.subspan(1)) combine(dst, dst, source, bytes);
    return;
  }
  const int kind = static_cast<int>(op_.kind());
  const compute::Fold past_caches = streaming ? kernels_->fold_streaming[kind] : nullptr;
  const compute::Fold kernel = past_caches ? past_caches : kernels_->fold[kind];
  kernel(dst, reinterpret_cast<const void* const*>(sources.data()), static_cast<int>(sources.size()),
         bytes / element_size_);
}

void Arithmetic::premultiply(std::byte* dst, const void* src, std::size_t count) const noexcept {
  kernels_->scale(dst, src, count, op_.factor());
}

// ---- Averages --------------------------------------------------------------------------------------------------

void Arithmetic::begin(std::byte* dst, const std::byte* elements, std::size_t count) const noexcept {
  kernels_->average.begin(dst, elements, count, factor_);
}

void Arithmetic::contribute(std::byte* dst, const std::byte* sum, const std::byte* elements,
                            std::size_t count) const noexcept {
  kernels_->average.contribute(dst, sum, elements, count, factor_);
}

void Arithmetic::finish(std::byte* dst, const std::byte* sum, std::size_t count) const noexcept {
  if (!is_finished()) return kernels_->average.finish(dst, sum, count, divisor_);
  if (dst != sum && count > 0) std::memcpy(dst, sum, count * element_size_);
}

/// Works block by block: all sources of a block are read before it is written, so that `dst` may be one of them.
void Arithmetic::average(std::byte* dst, std::span<const std::byte* const> sources, std::size_t count) const noexcept {
  Block block;
  const std::size_t most = sizeof block / sum_size_;
  for (std::size_t done = 0; done < count; done += most) {
    const std::size_t now = std::min(most, count - done), offset = done * element_size_;
    std::byte* sum = block.bytes;
    begin(sum, sources.front() + offset, now);
    for (const std::byte* const& source : sources.subspan(1)) {
      std::byte* const to = is_finished() && &source == &sources.back() ? dst + offset : block.bytes;
      contribute(to, std::exchange(sum, to), source + offset, now);
    }
    finish(dst + offset, sum, now);
  }
}

}  // namespace tutti::detail
