#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace tutti {

/// Writes `value` to `at`, lowest byte first; returns where the next one goes.
template <std::unsigned_integral Integer>
std::byte* put(std::byte* at, Integer value) {
  for (std::size_t i = 0; i < sizeof value; ++i) *at++ = static_cast<std::byte>(value >> (8 * i));
  return at;
}

/// Reads what put() wrote and moves `at` behind it.
template <std::unsigned_integral Integer>
Integer get(const std::byte*& at) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(Integer); ++i) value |= std::to_integer<std::uint64_t>(*at++) << (8 * i);
  return static_cast<Integer>(value);
}

}  // namespace tutti
