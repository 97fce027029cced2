#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace tutti::detail {

/// Objects in the order in which they were added, each under a small number by which tokens and frames name it. A
/// number is used again once it is free. Every operation takes the same time, however many objects there are. Once
/// warm, nothing is allocated.
template <class T>
class Roster {
 public:
  bool empty() const { return oldest_ == none; }
  /// The object that was added first; null: there is none.
  T* oldest() const { return oldest_ == none ? nullptr : entries_[oldest_].object; }
  /// The object with this number; null: there is none.
  T* find(std::uint64_t slot) const { return slot < entries_.size() ? entries_[slot].object : nullptr; }

  std::uint32_t add(T& object) {
    if (free_ == none) {
      free_ = static_cast<std::uint32_t>(entries_.size());
      entries_.emplace_back();
    }
    const std::uint32_t slot = std::exchange(free_, entries_[free_].after);
    entries_[slot] = {&object, newest_, none};
    (newest_ == none ? oldest_ : entries_[newest_].after) = slot;
    return newest_ = slot;
  }
  void remove(std::uint32_t slot) noexcept {
    const auto [object, before, after] = std::exchange(entries_[slot], {.after = free_});
    free_ = slot;
    (before == none ? oldest_ : entries_[before].after) = after;
    (after == none ? newest_ : entries_[after].before) = before;
  }

  /// Visits all, the oldest first. `visit` may remove the object that it gets.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (std::uint32_t slot = oldest_; slot != none;) {
      T& object = *entries_[slot].object;
      slot = entries_[slot].after;
      visit(object);
    }
  }

 private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  struct Entry {
    T* object = nullptr;  // null: the number is free
    std::uint32_t before = none;
    std::uint32_t after = none;  // of a free number: the next free one
  };

  std::vector<Entry> entries_;
  std::uint32_t oldest_ = none;
  std::uint32_t newest_ = none;
  std::uint32_t free_ = none;
};

}  // namespace tutti::detail
