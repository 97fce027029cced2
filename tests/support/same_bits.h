#pragma once

#include <cstring>
#include <vector>

namespace tutti::testing {

template <class T>
bool same_bits(const std::vector<T>& one, const std::vector<T>& other) {
  return one.size() == other.size() &&
         (one.empty() || std::memcmp(one.data(), other.data(), one.size() * sizeof(T)) == 0);
}

}  // namespace tutti::testing
