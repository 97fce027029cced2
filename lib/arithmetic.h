#pragma once

#include <cstddef>
#include <span>

#include "lib/compute/kernels.h"
#include "tutti/types.h"

namespace tutti::detail {

/// A result of so many bytes leaves the caches before it could be read again: it is written past them, at two thirds of
/// the traffic, since a line that is overwritten as a whole need not be read first.
constexpr bool streams(std::size_t result_bytes) { return result_bytes >= std::size_t{16} << 20; }

/// What an op means for elements of one type: kernels, or a user's function.
class Arithmetic {
 public:
  Arithmetic() = default;
  Arithmetic(const compute::Table& table, DataType type, const Op& op);

  std::size_t element_size() const { return element_size_; }
  /// The same whichever side an operand stands on, as far as we know.
  bool is_symmetric() const { return combine_ != nullptr; }
  /// dst = left op right; `dst` may be `left`, or `right` if it is symmetric.
  void combine(std::byte* dst, const std::byte* left, const std::byte* right, std::size_t bytes) const noexcept;
  /// dst = the left fold of all sources; `dst` may be the first of them, or any if it is symmetric. `streaming`: past
  /// the caches, where that is possible.
  void fold(std::byte* dst, std::span<const std::byte* const> sources, std::size_t bytes,
            bool streaming) const noexcept;
  /// Contributions are multiplied before anything is sent.
  bool premultiplies() const { return op_.kind() == OpKind::premul_sum; }
  void premultiply(std::byte* dst, const void* src, std::size_t count) const noexcept;
  /// What is left to do when all of `ranks` have been combined: the division of an average.
  bool finishes() const { return op_.kind() == OpKind::avg; }
  void finish(std::byte* data, std::size_t bytes, int ranks) const noexcept;

 private:
  Op op_ = sum;
  const compute::Kernels* kernels_ = nullptr;
  compute::Combine combine_ = nullptr;
  std::size_t element_size_ = 1;
};

}  // namespace tutti::detail
