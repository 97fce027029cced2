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

/// The keys and values of a store, and what each operation does to them: the one place for memory, file and server.
/// An ordered map, because keys come from strangers and a tree has no bad inputs.
class Table {
 public:
  const std::string* find(std::string_view key) const;
  bool has_all(std::span<const std::string> keys) const;
  /// In order.
  template <class Body>
  void for_each(Body body) const {
    for (const auto& [key, value] : values_) body(key);
  }
  std::size_t size() const { return values_.size(); }
  /// What `entry` costs in memory, roughly; the sum over all entries is bytes().
  static std::size_t bytes_of(std::string_view key, std::string_view value) { return key.size() + value.size() + 128; }
  std::size_t bytes() const { return bytes_; }

  void set(std::string_view key, std::string_view value);
  void append(std::string_view key, std::string_view value);
  bool erase(std::string_view key);
  /// What add() would store; empty when the value is no decimal number or the sum does not fit.
  std::optional<std::int64_t> sum(std::string_view key, std::int64_t delta) const;
  /// True when compare_set() stores `desired`.
  bool matches(std::string_view key, std::string_view expected) const;
  /// What compare_set() answers when nothing was stored.
  std::string current_or(std::string_view key, std::string_view expected) const;

 private:
  std::map<std::string, std::string, std::less<>> values_;
  std::size_t bytes_ = 0;
};

}  // namespace tutti::rendezvous
