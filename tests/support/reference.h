#pragma once

#include <algorithm>
#include <complex>
#include <cstddef>
#include <type_traits>

#include "tutti/types.h"

// The result of a collective, computed in the simplest way: one element at a time, in rank order. The values are small
// integers that every type and every op of at most 16 ranks represents exactly, so results are compared for equality.

namespace tutti::testing {

template <class T>
inline constexpr bool is_half = std::is_same_v<T, f16> || std::is_same_v<T, bf16>;
template <class T>
inline constexpr bool is_complex = std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;

template <class T>
T make(int value) {
  if constexpr (is_half<T>) {
    return T(static_cast<float>(value));
  } else if constexpr (is_complex<T>) {
    return T(static_cast<typename T::value_type>(value), static_cast<typename T::value_type>(value % 3));
  } else {
    return static_cast<T>(value);
  }
}

/// Element `index` of the contribution of `rank`. It differs between neighbours in both, so that a misplaced block
/// shows.
template <class T>
T contribution(int rank, std::size_t index, OpKind op) {
  const int mixed = static_cast<int>((index * 5 + static_cast<std::size_t>(rank) * 3 + index / 7) % 8);
  if constexpr (std::is_same_v<T, bool>) {
    // Mostly true for ops like "and", mostly false for ops like "or".
    return op == OpKind::product || op == OpKind::min || op == OpKind::band ? mixed != 0 : mixed == 0;
  } else {
    if (op == OpKind::product) return make<T>(rank < 4 ? 1 + mixed % 2 : 1);
    if (op == OpKind::premul_sum) return make<T>(2 * (mixed % 4));  // halved by the factor 0.5
    return make<T>(mixed % 4);
  }
}

inline constexpr double premul_factor = 0.5;

inline Op op_of(OpKind kind) { return kind == OpKind::premul_sum ? premul_sum(premul_factor) : Op{kind}; }

template <class T>
T apply(OpKind op, T a, T b) {
  if constexpr (std::is_same_v<T, bool>) {
    switch (op) {
      case OpKind::sum:
      case OpKind::max:
      case OpKind::bor:
        return a || b;
      case OpKind::bxor:
        return a != b;
      default:
        return a && b;
    }
  } else if constexpr (is_half<T>) {
    return T(apply<float>(op, static_cast<float>(a), static_cast<float>(b)));
  } else {
    if (op == OpKind::product) return static_cast<T>(a * b);
    if constexpr (std::is_integral_v<T>) {
      if (op == OpKind::band) return static_cast<T>(a & b);
      if (op == OpKind::bor) return static_cast<T>(a | b);
      if (op == OpKind::bxor) return static_cast<T>(a ^ b);
    }
    if constexpr (!is_complex<T>) {
      if (op == OpKind::min) return std::min(a, b);
      if (op == OpKind::max) return std::max(a, b);
    }
    return static_cast<T>(a + b);
  }
}

template <class T>
T scaled(T value) {
  if constexpr (is_half<T>) {
    return T(static_cast<float>(value) * static_cast<float>(premul_factor));
  } else if constexpr (is_complex<T>) {
    return value * static_cast<typename T::value_type>(premul_factor);
  } else {
    return static_cast<T>(static_cast<double>(value) * premul_factor);
  }
}

template <class T>
T divided(T value, int ranks) {
  if constexpr (is_half<T>) {
    return T(static_cast<float>(value) / static_cast<float>(ranks));
  } else if constexpr (is_complex<T>) {
    return value / static_cast<typename T::value_type>(ranks);
  } else {
    return static_cast<T>(value / static_cast<T>(ranks));
  }
}

/// Element `index` of the reduction over all ranks.
template <class T>
T reduced(int ranks, std::size_t index, OpKind op) {
  const auto term = [&](int rank) {
    const T value = contribution<T>(rank, index, op);
    return op == OpKind::premul_sum ? scaled(value) : value;
  };
  T result = term(0);
  for (int rank = 1; rank < ranks; ++rank) result = apply<T>(op, result, term(rank));
  return op == OpKind::avg ? divided(result, ranks) : result;
}

}  // namespace tutti::testing
