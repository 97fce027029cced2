#include "lib/arithmetic.h"

#include <cstring>

namespace tutti::detail {

Arithmetic::Arithmetic(const compute::Table& table, DataType type, const Op& op)
    : op_(op),
      kernels_(&compute::kernels(table, type)),
      combine_(op.kind() == OpKind::user ? nullptr : kernels_->combine[static_cast<int>(op.kind())]),
      element_size_(size_of(type)) {}

void Arithmetic::combine(std::byte* dst, const std::byte* left, const std::byte* right,
                         std::size_t bytes) const noexcept {
  if (bytes == 0) return;
  if (combine_) return combine_(dst, left, right, bytes / element_size_);
  if (dst != left) std::memcpy(dst, left, bytes);
  (*op_.function())(dst, right, bytes / element_size_);
}

void Arithmetic::fold(std::byte* dst, std::span<const std::byte* const> sources, std::size_t bytes,
                      bool streaming) const noexcept {
  if (bytes == 0) return;
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

void Arithmetic::finish(std::byte* data, std::size_t bytes, int ranks) const noexcept {
  if (finishes()) kernels_->divide(data, bytes / element_size_, ranks);
}

}  // namespace tutti::detail
