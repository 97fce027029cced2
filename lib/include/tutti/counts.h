#pragma once

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <ranges>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "tutti/export.h"

namespace tutti::detail {
inline namespace TUTTI_ABI {
template <class R>
concept Integers =
    std::ranges::input_range<R> && std::ranges::sized_range<R> && std::integral<std::ranges::range_value_t<R>>;
}  // namespace TUTTI_ABI
}  // namespace tutti::detail

namespace tutti {
inline namespace TUTTI_ABI {

/// How many elements each rank's part has in a `_v` call: integers by rank, and perhaps where the parts lie.
///
///     comm.gather_v(mine, all, {1, 2, 3}, root);               // one after the other: at 0, 1 and 3
///     comm.gather_v(mine, all, {{1, 2, 3}, {0, 4, 8}}, root);  // part k begins at element displacements[k]
///
/// With displacements parts may lie in any order and leave gaps, which are not written. Parts of an output must not
/// overlap. Such a call copies its parts to and from memory of its own.
/// Ownership: a variable that holds std::size_t (std::vector, std::array, std::span) is read where it lies, and must
///            live until the call that gets the Counts has returned. All else is copied, which allocates.
class Counts {
 public:
  Counts() = default;
  template <std::integral T>
  Counts(std::initializer_list<T> counts) {
    copy(counts);
  }
  template <detail::Integers R>
  Counts(R&& counts) {  // NOLINT(bugprone-forwarding-reference-overload): Counts are no range, so it hides nothing
    if constexpr (std::ranges::contiguous_range<R> && std::ranges::borrowed_range<R> &&
                  std::same_as<std::ranges::range_value_t<R>, std::size_t>)
      counts_ = std::span<const std::size_t>{std::ranges::data(counts), std::ranges::size(counts)};
    else
      copy(counts);
  }
  Counts(Counts counts, Counts displacements)
      : copied_(std::move(counts.copied_)),
        copied_displacements_(std::move(displacements.copied_)),
        counts_(counts.counts_),
        displacements_(displacements.counts_) {}
  Counts(Counts&&) noexcept = default;
  Counts& operator=(Counts&&) noexcept = default;

  std::span<const std::size_t> counts() const { return counts_; }
  /// Empty: the parts lie one after the other.
  std::span<const std::size_t> displacements() const { return displacements_; }

 private:
  /// A negative number becomes one that is larger than any memory, which the call refuses.
  template <class R>
  void copy(const R& counts) {
    copied_.reserve(std::ranges::size(counts));
    for (const auto count : counts) copied_.push_back(static_cast<std::size_t>(count));
    counts_ = copied_;
  }

  std::vector<std::size_t> copied_, copied_displacements_;  // moved, they stay where they lie
  std::span<const std::size_t> counts_, displacements_;
};

}  // namespace TUTTI_ABI
}  // namespace tutti
