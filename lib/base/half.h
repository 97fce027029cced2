#pragma once

#include <cstdint>

// The two 16-bit floating types as bit patterns, to and from float.
//
// Free of branches, so that loops over them vectorise. Everything is always_inline and uses no function of the standard
// library: this header is compiled into files for several instruction sets, and an out-of-line copy made for one of
// them must never be what the linker picks for another.
//
// Narrowing rounds to nearest, ties to even, also into the subnormal range and up to infinity. A NaN stays a NaN: its
// upper payload bits survive and it comes out quiet, as from the processor's own instructions.

namespace tutti::half {

[[gnu::always_inline]] constexpr std::uint32_t bits_of(float value) { return __builtin_bit_cast(std::uint32_t, value); }
[[gnu::always_inline]] constexpr float float_of(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }

/// `condition ? a : b` in a form that compilers do not turn back into a branch.
[[gnu::always_inline]] constexpr std::uint32_t pick(bool condition, std::uint32_t a, std::uint32_t b) {
  const std::uint32_t mask = 0u - static_cast<std::uint32_t>(condition);
  return (a & mask) | (b & ~mask);
}

[[gnu::always_inline]] constexpr float widen_bf16(std::uint16_t bits) { return float_of(std::uint32_t{bits} << 16); }

/// Any bits for a NaN.
[[gnu::always_inline]] constexpr std::uint32_t round_bf16(float value) {
  // Adding just under half of the last kept place, and the place itself where it is odd, carries exactly when the
  // dropped half is above a tie, or a tie beside an odd number. The carry may run into the exponent, up to infinity.
  const std::uint32_t bits = bits_of(value);
  return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
}

[[gnu::always_inline]] constexpr std::uint16_t narrow_bf16(float value) {
  const std::uint32_t quiet_nan = (bits_of(value) >> 16) | 0x0040u;
  return static_cast<std::uint16_t>((bits_of(value) & 0x7fffffffu) > 0x7f800000u ? quiet_nan : round_bf16(value));
}

[[gnu::always_inline]] constexpr float widen_f16(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const std::uint32_t magnitude = bits & 0x7fffu;
  const std::uint32_t normal = (magnitude << 13) + (112u << 23);  // 112: difference of the exponent biases
  // A subnormal counts units of 2^-24; small integers and their product with a power of two are exact.
  const std::uint32_t subnormal = bits_of(static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24f);
  const std::uint32_t special = (magnitude << 13) | 0x7f800000u | (magnitude > 0x7c00u ? 0x00400000u : 0u);
  return float_of(sign | pick(magnitude >= 0x7c00u, special, pick(magnitude < 0x0400u, subnormal, normal)));
}

/// `subnormal`: what the magnitude is below 2^-14, in units of 2^-24.
[[gnu::always_inline]] constexpr std::uint32_t round_f16(std::uint32_t bits, std::uint32_t subnormal) {
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  const std::uint32_t normal = (magnitude - (112u << 23) + 0x0fffu + ((magnitude >> 13) & 1u)) >> 13;
  const std::uint32_t finite = pick(magnitude < 0x38800000u, subnormal, normal);
  return ((bits >> 16) & 0x8000u) | pick(magnitude < 0x477ff000u, finite, 0x7c00u);  // from 65520 on: infinity
}

/// Infinity for a NaN. In the mode "to nearest".
[[gnu::always_inline]] constexpr std::uint32_t round_f16(float value) {
  // One unit in the last place of 0.5f is 2^-24, the unit of f16's subnormals: the addition rounds to it.
  const std::uint32_t bits = bits_of(value);
  return round_f16(bits, bits_of(float_of(bits & 0x7fffffffu) + 0.5f) - bits_of(0.5f));
}

/// The same in all modes.
[[gnu::always_inline]] constexpr std::uint16_t narrow_f16(float value) {
  const std::uint32_t bits = bits_of(value), magnitude = bits & 0x7fffffffu;
  const std::uint32_t digits = (magnitude & 0x007fffffu) | 0x00800000u;
  const std::uint32_t exponent = magnitude >> 23;  // the digits' last place is 2^(exponent - 150)
  const std::uint32_t shift = exponent < 101u ? 31u : exponent < 126u ? 126u - exponent : 1u;  // the last: not needed
  const std::uint32_t subnormal = (digits + (1u << (shift - 1)) - 1u + ((digits >> shift) & 1u)) >> shift;
  const std::uint32_t payload = 0x0200u | ((bits >> 13) & 0x03ffu);
  return static_cast<std::uint16_t>(round_f16(bits, subnormal) | (magnitude > 0x7f800000u ? payload : 0u));
}

static_assert(narrow_f16(1.0f) == 0x3c00 && narrow_f16(65504.0f) == 0x7bff && narrow_f16(65520.0f) == 0x7c00);
static_assert(narrow_f16(0x1p-24f) == 1 && narrow_f16(0x1p-25f) == 0 && narrow_f16(0x1.8p-24f) == 2);
static_assert(widen_f16(0x0001) == 0x1p-24f && widen_f16(0x03ff) == 0x1.ff8p-15f && widen_f16(0xc000) == -2.0f);
static_assert(narrow_bf16(1.0f) == 0x3f80 && widen_bf16(0x4049) == 3.140625f);

}  // namespace tutti::half
