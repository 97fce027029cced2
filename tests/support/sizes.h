#pragma once

#include <cstddef>

namespace tutti::testing {

inline constexpr std::size_t kibibyte = 1024;
inline constexpr std::size_t mebibyte = 1024 * kibibyte;

}  // namespace tutti::testing
