#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tutti::rendezvous {

/// The keys and values of a store, and the effect of each operation on them, for memory, file and server alike. An
/// ordered map, because keys come from strangers and a tree has no bad inputs.
class Table {
 public:
  const std::string* find(std::string_view key) const;
  bool has_all(std::span<const std::string> keys) const;
  /// Calls `body` for all entries in order.
  template <class Body>
  void for_each(Body body) const {
    for (const auto& [key, value] : values_) body(key);
  }
  std::size_t size() const { return values_.size(); }
  /// Approximate memory of an entry; the sum over all entries is bytes().
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

 private:
  std::map<std::string, std::string, std::less<>> values_;
  std::size_t bytes_ = 0;
};

}  // namespace tutti::rendezvous
