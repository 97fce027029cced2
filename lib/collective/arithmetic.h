#pragma once

#include <cstddef>
#include <span>

#include "lib/compute/float_environment.h"
#include "lib/compute/kernels.h"
#include "tutti/types.h"

namespace tutti::detail {

/// What an op means for elements of one type: kernels, or a user's function. Computing needs a
/// compute::FloatEnvironment of the usual modes; a user's function runs in the modes of the thread that made the call.
///
/// An average has three stages: elements become contributions, contributions and sums of them are combined and travel
/// between ranks, and the last sum becomes the average. Contributions and sums may be larger than elements. For all
/// other ops the three are one thing.
class Arithmetic {
 public:
  Arithmetic() = default;
  /// Called on the thread that makes the call. `ranks`: how many contribute.
  Arithmetic(const compute::Table& table, DataType type, const Op& op, int ranks);
  /// Called on the thread that starts the prepared call again.
  void begin_again() noexcept {
    if (op_.kind() == OpKind::user) caller_ = compute::FloatModes::of_this_thread();
  }

  std::size_t element_size() const { return element_size_; }
  /// Size of what is combined: of an element, except for averages.
  std::size_t sum_size() const { return sum_size_; }
  /// The result has the same bits if the operands are swapped. False for a user's function, of which nothing is known.
  bool is_symmetric() const { return combine_ != nullptr; }
  /// dst = left op right, for sums of `bytes` bytes. `dst` may be `left`, and if is_symmetric() also `right`.
  void combine(std::byte* dst, const std::byte* left, const std::byte* right, std::size_t bytes) const noexcept;
  /// dst = the result for the elements of all ranks: the left fold of `sources`. `dst` may be the first of them, and if
  /// is_symmetric() any. `streaming`: the result is written past the caches where that is possible.
  void fold(std::byte* dst, std::span<const std::byte* const> sources, std::size_t bytes,
            bool streaming) const noexcept;
  /// Whether contributions are multiplied before anything is sent.
  bool premultiplies() const { return op_.kind() == OpKind::premul_sum; }
  void premultiply(std::byte* dst, const void* src, std::size_t count) const noexcept;

  /// By what elements are multiplied to become contributions, for averages and premultiplied sums.
  double factor() const { return premultiplies() ? op_.factor() : factor_; }

  // ---- Averages
  /// By what the sum of all contributions is divided.
  double divisor() const { return divisor_; }
  bool averages() const { return op_.kind() == OpKind::avg; }
  /// Makes contributions of `count` elements. `dst` may be `elements` if both have one size.
  void begin(std::byte* dst, const std::byte* elements, std::size_t count) const noexcept;
  /// dst = sum + the contribution of `count` elements. `dst` may be `sum`, or `elements` if both have one size.
  void contribute(std::byte* dst, const std::byte* sum, const std::byte* elements, std::size_t count) const noexcept;
  /// Makes the average of the sum of all contributions. `dst` may be `sum` if both have one size.
  void finish(std::byte* dst, const std::byte* sum, std::size_t count) const noexcept;

 private:
  void average(std::byte* dst, std::span<const std::byte* const> sources, std::size_t count) const noexcept;
  bool is_finished() const { return divisor_ == 1 && sum_size_ == element_size_; }

  Op op_ = sum;
  compute::FloatModes caller_;  ///< in which the user's function runs
  const compute::Kernels* kernels_ = nullptr;
  compute::Combine combine_ = nullptr;
  std::size_t element_size_ = 1;
  std::size_t sum_size_ = 1;
  double factor_ = 1;   ///< by which an average multiplies elements
  double divisor_ = 1;  ///< by which it divides their sum
};

}  // namespace tutti::detail
