#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "tutti/options.h"

namespace tutti::detail {

/// By what messages and receives are matched. A receive may leave either open: any_source, any_tag.
struct MatchKey {
  int source = any_source;
  int tag = any_tag;

  friend bool operator==(const MatchKey&, const MatchKey&) = default;
};

/// First-in-first-out queues, one for each key that has an entry. An entry stands in `places` queues and can be removed
/// from the middle of each. Every operation takes the same time, however many entries and keys there are.
///
/// The i-th place of an entry must only be used with keys that no entry has at another place. Memory is kept: once
/// warm, nothing is allocated.
template <class Item, std::size_t places, class Key = MatchKey>
class KeyedQueues {
 public:
  using Id = std::uint32_t;

  bool empty() const { return size_ == 0; }

  Id add(Item item, const std::array<Key, places>& keys) {
    const Id id = take_free(entries_, free_entries_);
    entries_[id].item = std::move(item);
    ++size_;
    for (std::size_t place = 0; place < places; ++place) append(id, place, queue_of(keys[place]));
    return id;
  }
  /// The first entry that was added under `key`.
  std::optional<Id> first(const Key& key) const {
    const Id queue = find(key);
    return queue == none ? std::nullopt : std::optional<Id>{queues_[queue].head};
  }
  const Item& operator[](Id id) const { return entries_[id].item; }
  Item remove(Id id) {
    for (std::size_t place = 0; place < places; ++place) unlink(id, place);
    free_entries_.push_back(id);
    --size_;
    return std::move(entries_[id].item);
  }
  void clear() { *this = {}; }

 private:
  static constexpr Id none = ~Id{0};
  static constexpr std::size_t least_buckets = 16;

  struct Place {
    Id queue = none;
    Id before = none;
    Id after = none;
  };
  struct Entry {
    Item item{};
    std::array<Place, places> place{};
  };
  struct Queue {
    Key key{};
    Id head = none;
    Id tail = none;
    Id next = none;  // next queue of its bucket
  };

  template <class T>
  static Id take_free(std::vector<T>& all, std::vector<Id>& free) {
    if (free.empty()) {
      all.emplace_back();
      free.reserve(all.capacity());  // so that freeing an entry does not allocate
      return static_cast<Id>(all.size() - 1);
    }
    const Id id = free.back();
    free.pop_back();
    return id;
  }

  Id& bucket_of(const Key& key) { return buckets_[bucket_index(key)]; }
  std::size_t bucket_index(const Key& key) const {
    const std::uint64_t both =
        std::uint64_t{static_cast<std::uint32_t>(key.source)} << 32 | static_cast<std::uint32_t>(key.tag);
    const std::uint64_t mixed =
        (both ^ both >> 32) * 0x9e3779b97f4a7c15U;  // neighbouring tags fall into buckets far apart
    return static_cast<std::size_t>(mixed >> 32) & (buckets_.size() - 1);
  }

  Id find(const Key& key) const {
    if (buckets_.empty()) return none;
    Id queue = buckets_[bucket_index(key)];
    while (queue != none && !(queues_[queue].key == key)) queue = queues_[queue].next;
    return queue;
  }

  Id queue_of(const Key& key) {
    if (const Id found = find(key); found != none) return found;
    const Id queue = take_free(queues_, free_queues_);
    if (queues_.size() > buckets_.size()) grow();
    Id& bucket = bucket_of(key);
    queues_[queue] = {.key = key, .next = std::exchange(bucket, queue)};
    return queue;
  }

  void grow() {
    const std::vector<Id> old =
        std::exchange(buckets_, std::vector<Id>(2 * std::max(buckets_.size(), least_buckets / 2), none));
    for (Id queue : old) {
      while (queue != none) {
        Id& bucket = bucket_of(queues_[queue].key);
        const Id next = std::exchange(queues_[queue].next, bucket);
        bucket = std::exchange(queue, next);
      }
    }
  }

  void append(Id id, std::size_t place, Id queue) {
    Queue& to = queues_[queue];
    entries_[id].place[place] = {queue, to.tail, none};
    (to.tail == none ? to.head : entries_[to.tail].place[place].after) = id;
    to.tail = id;
  }

  void unlink(Id id, std::size_t place) {
    const auto [queue, before, after] = entries_[id].place[place];
    Queue& from = queues_[queue];
    (before == none ? from.head : entries_[before].place[place].after) = after;
    (after == none ? from.tail : entries_[after].place[place].before) = before;
    if (from.head == none) remove_queue(queue);
  }

  void remove_queue(Id queue) {
    Id* at = &bucket_of(queues_[queue].key);
    while (*at != queue) at = &queues_[*at].next;
    *at = queues_[queue].next;
    free_queues_.push_back(queue);
  }

  std::size_t size_ = 0;
  std::vector<Entry> entries_;
  std::vector<Id> free_entries_;
  std::vector<Queue> queues_;
  std::vector<Id> free_queues_;
  std::vector<Id> buckets_;  // the first queue of each bucket; a power of two, at least as many as queues
};

}  // namespace tutti::detail
