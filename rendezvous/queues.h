#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "rendezvous/kv_table.h"

namespace tutti::rendezvous {

/// First in, first out, by name. A queue exists while it has entries.
class Queues {
 public:
  std::size_t size(std::string_view name) const {
    const auto it = queues_.find(name);
    return it == queues_.end() ? 0 : it->second.size();
  }
  void push(const std::string& name, std::string value) {
    bytes_ += Table::bytes_of(name, value);
    queues_[name].push_back(std::move(value));
  }
  /// The queue must exist.
  std::string pop(std::string_view name) {
    const auto it = queues_.find(name);
    std::string value = std::move(it->second.front());
    bytes_ -= Table::bytes_of(name, value);
    it->second.pop_front();
    if (it->second.empty()) queues_.erase(it);
    return value;
  }
  /// Approximate memory of all queues.
  std::size_t bytes() const { return bytes_; }

 private:
  std::map<std::string, std::deque<std::string>, std::less<>> queues_;
  std::size_t bytes_ = 0;
};

}  // namespace tutti::rendezvous
