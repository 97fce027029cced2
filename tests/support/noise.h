#pragma once

#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <random>
#include <type_traits>
#include <vector>

#include "tutti/types.h"

namespace tutti::testing {

/// Numbers whose sums depend on the order in which they are added.
inline std::vector<float> noise(std::size_t count, int seed) {
  std::mt19937 generator{static_cast<unsigned>(seed)};
  std::uniform_real_distribution<float> values{-1e6F, 1e6F};
  std::vector<float> result(count);
  for (float& value : result) value = values(generator);
  return result;
}

/// Another such number, from `rank` and `i` alone.
inline float rough(int rank, std::size_t i) {
  return std::ldexp(1.0F + static_cast<float>((i * 7919 + static_cast<std::size_t>(rank) * 104'729) % 1000) / 999.0F,
                    static_cast<int>((i + static_cast<std::size_t>(rank) * 5) % 20));
}

/// An element of any type. Integers have any bits. Floating numbers have any fraction, of several magnitudes for sums;
/// a result of sixteen of them is finite in each type, also if they are multiplied. Some are 0 or -0.
template <class T>
T noise_of(std::mt19937_64& generator, OpKind op) {
  if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
    const auto real = noise_of<typename T::value_type>(generator, op);
    return {real, noise_of<typename T::value_type>(generator, op)};
  } else if constexpr (std::is_same_v<T, bool>) {
    return generator() % 2 == 0;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(generator());
  } else {
    const std::uint64_t bits = generator();
    const int exponent = op == OpKind::product ? static_cast<int>(bits % 2) - 1 : static_cast<int>(bits % 13) - 6;
    const double fraction = 1 + static_cast<double>(bits >> 12) * 0x1p-52;
    const double value = bits / 16 % 32 == 0 ? 0 : std::ldexp(fraction, exponent);
    const double with_sign = bits / 512 % 2 == 0 ? value : -value;
    if constexpr (std::is_same_v<T, double>)
      return with_sign;
    else
      return T(static_cast<float>(with_sign));
  }
}

}  // namespace tutti::testing
