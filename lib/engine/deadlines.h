#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "lib/engine/pending.h"

namespace tutti::detail {

/// What is on its way, and when each of it must be looked at next: a heap, so that neither thousands of operations nor
/// their deadlines cost more than a few steps each.
class Deadlines {
 public:
  static constexpr Clock::time_point never = Clock::time_point::max();

  bool empty() const { return heap_.empty(); }
  /// The earliest; never: there is none.
  Clock::time_point first() const { return heap_.empty() ? never : heap_.front().at; }
  /// That with the earliest deadline. There is one.
  Pending& front() const { return *heap_.front().pending; }

  /// In no order. A copy: what looks at them may change their deadlines.
  std::vector<Pending*> all() const {
    std::vector<Pending*> pendings;
    for (const Entry& entry : heap_) pendings.push_back(entry.pending);
    return pendings;
  }

  void add(Pending& pending) {
    heap_.push_back({never, &pending});
    pending.deadline_index = heap_.size() - 1;
  }
  void set(Pending& pending, Clock::time_point at) noexcept { settle(pending.deadline_index, {at, &pending}); }
  void remove(Pending& pending) noexcept {
    const Entry last = heap_.back();
    heap_.pop_back();
    if (last.pending != &pending) settle(pending.deadline_index, last);
  }

 private:
  struct Entry {
    Clock::time_point at;
    Pending* pending;
  };

  void put(std::size_t index, const Entry& entry) noexcept {
    heap_[index] = entry;
    entry.pending->deadline_index = index;
  }

  /// Four children each: half the levels of two, and the children that are compared lie side by side.
  static constexpr std::size_t width = 4;
  static std::size_t parent_of(std::size_t index) { return (index - 1) / width; }

  /// The earliest child, or the index itself where there is none.
  std::size_t earliest_child(std::size_t index) const {
    const std::size_t first = width * index + 1;
    if (first >= heap_.size()) return index;
    std::size_t earliest = first;
    for (std::size_t child = first + 1; child < std::min(first + width, heap_.size()); ++child)
      if (heap_[child].at < heap_[earliest].at) earliest = child;
    return earliest;
  }

  /// `entry` replaces what is at `index`, and finds its place from there.
  void settle(std::size_t index, const Entry& entry) noexcept {
    for (; index > 0 && entry.at < heap_[parent_of(index)].at; index = parent_of(index))
      put(index, heap_[parent_of(index)]);
    for (std::size_t child = earliest_child(index); child != index && heap_[child].at < entry.at;
         child = earliest_child(index)) {
      put(index, heap_[child]);
      index = child;
    }
    put(index, entry);
  }

  std::vector<Entry> heap_;
};

}  // namespace tutti::detail
