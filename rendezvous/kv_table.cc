#include "rendezvous/kv_table.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace tutti::rendezvous {

const std::string* Table::find(std::string_view key) const {
  const auto it = values_.find(key);
  return it == values_.end() ? nullptr : &it->second;
}

bool Table::has_all(std::span<const std::string> keys) const {
  return std::all_of(keys.begin(), keys.end(), [this](const std::string& key) { return find(key) != nullptr; });
}

bool Table::all_exist(std::span<const std::string> names) const {
  return std::all_of(names.begin(), names.end(), [this](const std::string& name) { return exists(name); });
}

std::vector<std::string> Table::keys() const {
  std::vector<std::string> keys;
  keys.reserve(values_.size());
  for (const auto& [key, value] : values_) keys.push_back(key);
  return keys;
}

void Table::set(std::string_view key, std::string_view value) {
  const auto it = values_.find(key);
  if (it == values_.end()) {
    values_.emplace(key, value);
    bytes_ += bytes_of(key, value);
  } else {
    bytes_ = bytes_ - it->second.size() + value.size();
    it->second.assign(value);
  }
}

void Table::append(std::string_view key, std::string_view value) {
  const auto it = values_.find(key);
  if (it == values_.end()) return set(key, value);
  it->second.append(value);
  bytes_ += value.size();
}

bool Table::erase(std::string_view key) {
  const auto it = values_.find(key);
  if (it == values_.end()) return false;
  bytes_ -= bytes_of(it->first, it->second);
  values_.erase(it);
  return true;
}

std::optional<std::int64_t> Table::sum(std::string_view key, std::int64_t delta) const {
  const std::string* value = find(key);
  if (value == nullptr) return delta;
  std::int64_t number = 0;
  const char* end = value->data() + value->size();
  const auto [rest, error] = std::from_chars(value->data(), end, number);
  if (error != std::errc{} || rest != end || __builtin_add_overflow(number, delta, &number)) return std::nullopt;
  return number;
}

bool Table::matches(std::string_view key, std::string_view expected) const {
  const std::string* value = find(key);
  return value == nullptr ? expected.empty() : *value == expected;
}

std::string Table::current_or(std::string_view key, std::string_view expected) const {
  const std::string* value = find(key);
  return value == nullptr ? std::string{expected} : *value;
}

std::size_t Table::queue_length(std::string_view name) const {
  const auto it = queues_.find(name);
  return it == queues_.end() ? 0 : it->second.size();
}

void Table::push(std::string_view name, std::string_view value) {
  queues_[std::string{name}].emplace_back(value);
  bytes_ += bytes_of(name, value);
}

std::optional<std::string> Table::pop(std::string_view name) {
  const auto it = queues_.find(name);
  if (it == queues_.end()) return std::nullopt;
  std::string value = std::move(it->second.front());
  bytes_ -= bytes_of(name, value);
  it->second.pop_front();
  if (it->second.empty()) queues_.erase(it);
  return value;
}

}  // namespace tutti::rendezvous
