// The definition of what the kernels compute: one element at a time, without regard for speed.

#include <cmath>
#include <complex>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "lib/compute/kernels.h"

namespace tutti::compute {
namespace {

template <class T>
T load(const void* from, std::size_t i) {
  T value;
  std::memcpy(&value, static_cast<const char*>(from) + i * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void store(void* to, std::size_t i, T value) {
  std::memcpy(static_cast<char*>(to) + i * sizeof(T), &value, sizeof(T));
}

template <class T>
T all_bits_set() {
  T value;
  std::memset(static_cast<void*>(&value), 0xff, sizeof value);
  return value;
}

/// The NaN of all results.
template <class T>
T settled(T value) {
  return std::isnan(value) ? all_bits_set<T>() : value;
}
template <class T>
std::complex<T> settled(std::complex<T> value) {
  return {settled(value.real()), settled(value.imag())};
}

/// 16-bit floats are computed in float and rounded once at the end.
template <class Half>
Half narrowed(float value) {
  return std::isnan(value) ? all_bits_set<Half>() : Half{value};
}

template <class T>
constexpr bool is_half = std::is_same_v<T, f16> || std::is_same_v<T, bf16>;

template <class T>
T add(T a, T b) {
  if constexpr (is_half<T>)
    return narrowed<T>(float{a} + float{b});
  else if constexpr (std::is_integral_v<T>)
    return static_cast<T>(std::uint64_t(a) + std::uint64_t(b));
  else
    return settled(a + b);
}

template <class T>
T multiply(T a, T b) {
  if constexpr (is_half<T>)
    return narrowed<T>(float{a} * float{b});
  else if constexpr (std::is_integral_v<T>)
    return static_cast<T>(std::uint64_t(a) * std::uint64_t(b));
  else
    return settled(a * b);
}

template <class T>
std::complex<T> multiply_complex(std::complex<T> x, std::complex<T> y) {
  return settled(std::complex<T>{x.real() * y.real() - x.imag() * y.imag(), x.real() * y.imag() + x.imag() * y.real()});
}

template <class T>
T smaller(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return a < b ? a : b;
  } else {
    const auto x = static_cast<std::conditional_t<is_half<T>, float, T>>(a);
    const auto y = static_cast<decltype(x)>(b);
    if (std::isnan(x) || std::isnan(y)) return all_bits_set<T>();
    if (x == y) return std::signbit(x) ? a : b;  // equal except for the sign of a zero: the negative one
    return x < y ? a : b;
  }
}

template <class T>
T larger(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return a < b ? b : a;
  } else {
    const auto x = static_cast<std::conditional_t<is_half<T>, float, T>>(a);
    const auto y = static_cast<decltype(x)>(b);
    if (std::isnan(x) || std::isnan(y)) return all_bits_set<T>();
    if (x == y) return std::signbit(x) ? b : a;
    return x < y ? b : a;
  }
}

template <class T>
T times(T value, double factor) {
  if constexpr (is_half<T>)
    return narrowed<T>(float{value} * static_cast<float>(factor));
  else
    return settled(value * static_cast<T>(factor));
}
template <class T>
std::complex<T> times(std::complex<T> value, double factor) {
  return {times(value.real(), factor), times(value.imag(), factor)};
}

template <class T, T (*op)(T, T)>
void combine(void* dst, const void* left, const void* right, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) store<T>(dst, i, op(load<T>(left, i), load<T>(right, i)));
}

template <Combine combine, std::size_t size>
void fold(void* dst, const void* const* sources, int n, std::size_t count) {
  std::vector<char> total(count * size);
  if (count > 0) std::memcpy(total.data(), sources[0], total.size());
  for (int s = 1; s < n; ++s) combine(total.data(), total.data(), sources[s], count);
  if (count > 0) std::memcpy(dst, total.data(), total.size());
}

template <class T>
void scale(void* dst, const void* src, std::size_t count, double factor) {
  for (std::size_t i = 0; i < count; ++i) store<T>(dst, i, times(load<T>(src, i), factor));
}

// ---- Averages

__extension__ using Int128 = __int128;
__extension__ using Uint128 = unsigned __int128;

/// The type of sums of elements T.
template <class T>
struct SumOf {
  using Type = T;
};
template <>
struct SumOf<f16> {
  using Type = float;
};
template <std::integral T>
struct SumOf<T> {
  using Signed =
      std::conditional_t<sizeof(T) <= 2, std::int32_t, std::conditional_t<sizeof(T) == 4, std::int64_t, Int128>>;
  using Unsigned =
      std::conditional_t<sizeof(T) <= 2, std::uint32_t, std::conditional_t<sizeof(T) == 4, std::uint64_t, Uint128>>;
  using Type = std::conditional_t<std::is_signed_v<T>, Signed, Unsigned>;
};
template <class T>
using SumType = typename SumOf<T>::Type;

template <class T>
constexpr bool has_wide_sum = !std::is_same_v<SumType<T>, T>;

template <class T>
SumType<T> contribution(T value, double factor) {
  if constexpr (has_wide_sum<T>)
    return static_cast<SumType<T>>(value);
  else
    return times(value, factor);
}

template <class T>
SumType<T> total(SumType<T> a, SumType<T> b) {
  if constexpr (has_wide_sum<T>)
    return a + b;
  else
    return add(a, b);
}

template <class T>
T over(SumType<T> sum, double divisor) {
  if constexpr (is_half<T>)
    return narrowed<T>(static_cast<float>(sum) / static_cast<float>(divisor));
  else if constexpr (std::is_integral_v<T>)
    return static_cast<T>(sum / static_cast<SumType<T>>(divisor));
  else
    return settled(sum / static_cast<T>(divisor));
}
template <class T>
std::complex<T> over_complex(std::complex<T> sum, double divisor) {
  return {over<T>(sum.real(), divisor), over<T>(sum.imag(), divisor)};
}

template <class T>
void begin(void* dst, const void* src, std::size_t count, double factor) {
  for (std::size_t i = 0; i < count; ++i) store(dst, i, contribution(load<T>(src, i), factor));
}

template <class T>
void contribute(void* dst, const void* sum, const void* src, std::size_t count, double factor) {
  for (std::size_t i = 0; i < count; ++i)
    store(dst, i, total<T>(load<SumType<T>>(sum, i), contribution(load<T>(src, i), factor)));
}

template <class T, T (*quotient)(SumType<T>, double)>
void finish(void* dst, const void* sum, std::size_t count, double divisor) {
  for (std::size_t i = 0; i < count; ++i) store(dst, i, quotient(load<SumType<T>>(sum, i), divisor));
}

template <class T, T (*quotient)(SumType<T>, double) = over<T>>
constexpr Average average() {
  return {sizeof(SumType<T>), begin<T>, contribute<T>, combine<SumType<T>, total<T>>, finish<T, quotient>};
}

template <class T>
T bitwise_and(T a, T b) {
  return static_cast<T>(a & b);
}
template <class T>
T bitwise_or(T a, T b) {
  return static_cast<T>(a | b);
}
template <class T>
T bitwise_xor(T a, T b) {
  return static_cast<T>(a ^ b);
}

/// bool is taken as the byte it is: any but 0 is true.
std::uint8_t both(std::uint8_t a, std::uint8_t b) { return a != 0 && b != 0 ? 1 : 0; }
std::uint8_t either(std::uint8_t a, std::uint8_t b) { return a != 0 || b != 0 ? 1 : 0; }
std::uint8_t one_of(std::uint8_t a, std::uint8_t b) { return (a != 0) != (b != 0) ? 1 : 0; }

template <Combine combine, std::size_t size>
constexpr Fold fold_of() {
  if constexpr (combine == nullptr) {
    return nullptr;
  } else {
    return fold<combine, size>;
  }
}

template <std::size_t size, Combine... combine>
Kernels kernels_of(Scale scale, const Average& average) {
  return {{combine...}, {fold_of<combine, size>()...}, {}, {}, scale, average};
}

// Columns: sum product min max band bor bxor avg premul_sum

template <class T>
Kernels integer() {
  return kernels_of<sizeof(T), combine<T, add>, combine<T, multiply>, combine<T, smaller>, combine<T, larger>,
                    combine<T, bitwise_and>, combine<T, bitwise_or>, combine<T, bitwise_xor>, nullptr, nullptr>(
      nullptr, average<T>());
}

Kernels boolean() {
  using Byte = std::uint8_t;
  return kernels_of<1, combine<Byte, either>, combine<Byte, both>, combine<Byte, both>, combine<Byte, either>,
                    combine<Byte, both>, combine<Byte, either>, combine<Byte, one_of>, nullptr, nullptr>(nullptr,
                                                                                                         Average{});
}

template <class T>
Kernels floating() {
  return kernels_of<sizeof(T), combine<T, add>, combine<T, multiply>, combine<T, smaller>, combine<T, larger>, nullptr,
                    nullptr, nullptr, nullptr, combine<T, add>>(scale<T>, average<T>());
}

template <class T>
Kernels complex() {
  using Complex = std::complex<T>;
  return kernels_of<sizeof(Complex), combine<Complex, add>, combine<Complex, multiply_complex<T>>, nullptr, nullptr,
                    nullptr, nullptr, nullptr, nullptr, combine<Complex, add>>(scale<Complex>,
                                                                               average<Complex, over_complex<T>>());
}

void copy(void* dst, const void* src, std::size_t bytes) { std::memcpy(dst, src, bytes); }

}  // namespace

const Table& reference_table() {
  static const Table table{
      "reference",
      copy,
      copy,
      {integer<std::int8_t>(), integer<std::uint8_t>(), integer<std::int16_t>(), integer<std::uint16_t>(),
       integer<std::int32_t>(), integer<std::uint32_t>(), integer<std::int64_t>(), integer<std::uint64_t>(), boolean(),
       floating<f16>(), floating<bf16>(), floating<float>(), floating<double>(), complex<float>(), complex<double>()}};
  return table;
}

}  // namespace tutti::compute
