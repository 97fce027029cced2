#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "lib/engine/pending.h"

namespace tutti::detail {

/// All running operations, and when to look at each of them next. A heap, so that operations and deadlines cost a few
/// steps each, even if there are thousands.
class Deadlines {
 public:
  static constexpr Clock::time_point never = Clock::time_point::max();

  bool empty() const { return heap_.empty(); }
  /// The earliest deadline; `never` if there is none.
  Clock::time_point first() const { return heap_.empty() ? never : heap_.front().at; }
  /// The operation with the earliest deadline. There must be one.
  Pending& front() const { return *heap_.front().pending; }

  /// All of them, in no order. A copy, since visitors may change deadlines.
  std::vector<Pending*> all() const {
    std::vector<Pending*> pendings;
    for (const Entry& entry : heap_) pendings.push_back(entry.pending);
    return pendings;
  }

  void engine_stops() const noexcept {
    for (Pending* const pending : all()) pending->engine_stops();
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

  /// Four children per node: half as many levels as with two, and the children that are compared lie side by side.
  static constexpr std::size_t width = 4;
  static std::size_t parent_of(std::size_t index) { return (index - 1) / width; }

  /// The earliest child, or `index` itself if there is none.
  std::size_t earliest_child(std::size_t index) const {
    const std::size_t first = width * index + 1;
    if (first >= heap_.size()) return index;
    std::size_t earliest = first;
    for (std::size_t child = first + 1; child < std::min(first + width, heap_.size()); ++child)
      if (heap_[child].at < heap_[earliest].at) earliest = child;
    return earliest;
  }

  /// Puts `entry` at `index`, and moves it from there to its place.
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
