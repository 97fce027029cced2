#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tutti/error.h"

namespace tutti::fuzz {

/// The fuzzer's bytes, taken from the front. An input that is too short gives zeros.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

  bool empty() const { return rest_.empty(); }
  std::uint8_t number() {
    if (rest_.empty()) return 0;
    const auto value = static_cast<std::uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return value;
  }
  std::string_view take(std::size_t size) {
    const std::string_view piece = rest_.substr(0, size);
    rest_.remove_prefix(piece.size());
    return piece;
  }
  /// Up to the next `end`, which is dropped.
  std::string_view word(char end) {
    const std::size_t size = std::min(rest_.find(end), rest_.size());
    const std::string_view piece = take(size);
    if (!rest_.empty()) rest_.remove_prefix(1);
    return piece;
  }
  std::string_view rest() { return take(rest_.size()); }

 private:
  std::string_view rest_;
};

/// What must hold whatever the input is.
inline void require(bool holds) {
  if (!holds) std::abort();
}

/// A call with wrong input may throw our Error, which says why, and nothing else.
template <class Call>
void may_refuse(Call call) {
  try {
    call();
  } catch (const Error& error) {
    require(error.what()[0] != '\0');
  }
}

}  // namespace tutti::fuzz
