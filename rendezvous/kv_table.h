#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::rendezvous {

/// The keys, values and queues of a store, and the effect of each operation on them, for memory, file and server alike.
/// Ordered maps, because keys come from strangers and a tree has no bad inputs.
class Table {
 public:
  const std::string* find(std::string_view key) const;
  bool has_all(std::span<const std::string> keys) const;
  /// True if it is the name of a key or of a queue, for which clients wait in the same way.
  bool exists(std::string_view name) const { return find(name) != nullptr || queue_length(name) > 0; }
  bool all_exist(std::span<const std::string> names) const;
  /// All keys in order.
  std::vector<std::string> keys() const;
  std::size_t size() const { return values_.size(); }
  /// Approximate memory of a value under its key, or in a queue; the sum over all of them is bytes().
  static std::size_t bytes_of(std::string_view key, std::string_view value) { return key.size() + value.size() + 128; }
  std::size_t bytes() const { return bytes_; }

  void set(std::string_view key, std::string_view value);
  void append(std::string_view key, std::string_view value);
  bool erase(std::string_view key);
  /// The value that add() would store; empty if the present value is not a decimal number or the sum overflows.
  std::optional<std::int64_t> sum(std::string_view key, std::int64_t delta) const;
  /// True if compare_set() stores `desired`.
  bool matches(std::string_view key, std::string_view expected) const;
  /// The answer of compare_set() if nothing was stored.
  std::string current_or(std::string_view key, std::string_view expected) const;

  /// A queue exists while it has values: first in, first out.
  std::size_t queue_length(std::string_view name) const;
  void push(std::string_view name, std::string_view value);
  /// Empty if there is no such queue.
  std::optional<std::string> pop(std::string_view name);

 private:
  std::map<std::string, std::string, std::less<>> values_;
  std::map<std::string, std::deque<std::string>, std::less<>> queues_;
  std::size_t bytes_ = 0;
};

}  // namespace tutti::rendezvous
