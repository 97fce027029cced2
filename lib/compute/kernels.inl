// The loops, compiled once per instruction set. They do not use special instructions, except the two that convert f16:
// compilers vectorise the rest. Included after TUTTI_TABLE is defined as the name of the table to fill, or without one
// if kernels of some types are needed.
//
// Everything lives in an unnamed namespace or is always_inline, and no function of the standard library is used; see
// table.h for why.

#include <cstdint>
#include <type_traits>

#include "lib/compute/elements.inl"
#include "lib/compute/streams.inl"
#include "lib/compute/table.h"

// No iteration depends on another: dst is left or right, or apart from both.
#if defined(__clang__)
#define TUTTI_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#define TUTTI_UNROLLED _Pragma("unroll 4")
#else
#define TUTTI_INDEPENDENT _Pragma("GCC ivdep")
#define TUTTI_UNROLLED _Pragma("GCC unroll 4")
#endif

namespace tutti::compute {
namespace {

/// Elements may be unaligned, and of another type for the caller.
template <class T>
struct Loose {
  using Type [[gnu::may_alias, gnu::aligned(1)]] = T;
};

template <class T>
T get(const void* from, std::size_t i) {
  return static_cast<const typename Loose<T>::Type*>(from)[i];
}

template <class T>
void put(void* to, std::size_t i, T value) {
  static_cast<typename Loose<T>::Type*>(to)[i] = value;
}

// ---- Loops

template <class Element, class Op>
void combine(void* dst, const void* left, const void* right, std::size_t count) {
  using T = typename Element::Stored;
  TUTTI_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i)
    put<T>(dst, i, Element::store(Op{}(Element::load(get<T>(left, i)), Element::load(get<T>(right, i)))));
}

template <class Element>
void scale(void* dst, const void* src, std::size_t count, double factor) {
  using T = typename Element::Stored;
  const auto by = static_cast<decltype(Element::load(T{}))>(factor);
  TUTTI_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) put<T>(dst, i, Element::store(Element::load(get<T>(src, i)) * by));
}

// ---- Averages whose sums have the elements' type

template <class Element>
void contribute(void* dst, const void* sum, const void* src, std::size_t count, double factor) {
  using T = typename Element::Stored;
  const auto by = static_cast<decltype(Element::load(T{}))>(factor);
  TUTTI_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) {
    const auto part = Element::load(Element::round(Element::load(get<T>(src, i)) * by));
    put<T>(dst, i, Element::store(Element::load(get<T>(sum, i)) + part));
  }
}

template <class Element>
void divide(void* dst, const void* sum, std::size_t count, double divisor) {
  using T = typename Element::Stored;
  const auto by = static_cast<decltype(Element::load(T{}))>(divisor);
  TUTTI_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) put<T>(dst, i, Element::store(Element::load(get<T>(sum, i)) / by));
}

// ---- Averages of integers

template <class T>
void widen(void* dst, const void* src, std::size_t count, double) {
  using Wide = typename SumOf<T>::Type;
  TUTTI_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) put<Wide>(dst, i, get<T>(src, i));
}

template <class T>
void contribute_widened(void* dst, const void* sum, const void* src, std::size_t count, double) {
  using Wide = typename SumOf<T>::Type;
  TUTTI_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) put<Wide>(dst, i, get<Wide>(sum, i) + static_cast<Wide>(get<T>(src, i)));
}

template <class T>
void add_widened(void* dst, const void* left, const void* right, std::size_t count) {
  combine<Raw<typename SumOf<T>::Type>, Sum>(dst, left, right, count);
}

// Conversions that vectorise without instructions of AVX-512.

inline double as_double(std::int32_t value) { return value; }
inline double as_double(std::uint32_t value) {
  return __builtin_bit_cast(double, 0x4330000000000000 | std::uint64_t{value}) - 0x1p52;
}
/// Below 2^51: the number is added to the last places of 1.5 * 2^52.
inline double as_double(std::uint64_t value) {
  return __builtin_bit_cast(double, 0x4338000000000000 + value) - 0x1.8p52;
}
inline double as_double(std::int64_t value) { return as_double(static_cast<std::uint64_t>(value)); }

/// Cut off after the point.
template <class T>
T whole(double value) {
  if constexpr (!std::is_same_v<T, std::uint32_t>) return static_cast<T>(static_cast<std::int32_t>(value));
  const auto upper = static_cast<std::int32_t>(value * 0x1p-16);
  const auto lower = static_cast<std::int32_t>(value - upper * 0x1p16);
  return static_cast<T>((static_cast<std::uint32_t>(upper) << 16) + static_cast<std::uint32_t>(lower));
}

template <class T>
void divide_widened(void* dst, const void* sum, std::size_t count, double divisor) {
  using Wide = typename SumOf<T>::Type;
  if constexpr (sizeof(T) < 8) {
    // Sums below 2^51 have quotients that are not rounded up to the next integer.
    constexpr double most_ranks = sizeof(T) == 4 ? 0x1p19 : 0x1p31;
    if (divisor <= most_ranks) {
      TUTTI_INDEPENDENT
      for (std::size_t i = 0; i < count; ++i) put<T>(dst, i, whole<T>(as_double(get<Wide>(sum, i)) / divisor));
      return;
    }
  }
  const auto by = static_cast<Wide>(divisor);
  for (std::size_t i = 0; i < count; ++i) put<T>(dst, i, static_cast<T>(get<Wide>(sum, i) / by));
}

}  // namespace
}  // namespace tutti::compute

#include "lib/compute/halves.inl"

namespace tutti::compute {
namespace {

// ---- Complex numbers: two reals side by side

template <class T, class Op>
void combine_parts(void* dst, const void* left, const void* right, std::size_t count) {
  combine<Real<T>, Op>(dst, left, right, 2 * count);
}

template <class T>
void scale_parts(void* dst, const void* src, std::size_t count, double factor) {
  scale<Real<T>>(dst, src, 2 * count, factor);
}

template <class T>
void contribute_parts(void* dst, const void* sum, const void* src, std::size_t count, double factor) {
  contribute<Real<T>>(dst, sum, src, 2 * count, factor);
}

template <class T>
void divide_parts(void* dst, const void* sum, std::size_t count, double divisor) {
  divide<Real<T>>(dst, sum, 2 * count, divisor);
}

template <class T>
void multiply_complex(void* dst, const void* left, const void* right, std::size_t count) {
  TUTTI_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) {
    const Complex<T> product = multiplied(Complex<T>{get<T>(left, 2 * i), get<T>(left, 2 * i + 1)},
                                          Complex<T>{get<T>(right, 2 * i), get<T>(right, 2 * i + 1)});
    put<T>(dst, 2 * i, product.real);
    put<T>(dst, 2 * i + 1, product.imaginary);
  }
}

// ---- The table. Columns: sum product min max band bor bxor avg premul_sum

constexpr Average no_average{};

template <class T>
constexpr Kernels integer() {
  using U = Modular<std::make_unsigned_t<T>>;
  return kernels_of<sizeof(T), combine<U, Sum>, combine<U, Product>, combine<Raw<T>, Min>, combine<Raw<T>, Max>,
                    combine<U, And>, combine<U, Or>, combine<U, Xor>, nullptr, nullptr>(
      nullptr, {sizeof(typename SumOf<T>::Type), widen<T>, contribute_widened<T>, add_widened<T>, divide_widened<T>});
}

constexpr Kernels boolean() {
  constexpr Combine both = combine<Bool, And>;
  constexpr Combine either = combine<Bool, Or>;
  return kernels_of<1, either, both, both, either, both, either, combine<Bool, Xor>, nullptr, nullptr>(nullptr,
                                                                                                       no_average);
}

template <std::size_t size, Combine sum, Combine product, Combine min, Combine max>
constexpr Kernels floating(Scale by, const Average& average) {
  return kernels_of<size, sum, product, min, max, nullptr, nullptr, nullptr, nullptr, sum>(by, average);
}

template <class T>
constexpr Kernels real() {
  constexpr Combine sum = combine<Real<T>, Sum>;
  return floating<sizeof(T), sum, combine<Real<T>, Product>, combine<Raw<T>, Extreme<Min, Or>>,
                  combine<Raw<T>, Extreme<Max, And>>>(
      scale<Real<T>>, {sizeof(T), scale<Real<T>>, contribute<Real<T>>, sum, divide<Real<T>>});
}

/// `Combined`: for sums and products.
template <class Combined, class Half, std::uint16_t infinity>
constexpr Kernels half_float(const Average& average) {
  return floating<2, combine_halves<Combined, Sum>, combine_halves<Combined, Product>,
                  combine<Raw<std::uint16_t>, ByOrder<Min, infinity>>,
                  combine<Raw<std::uint16_t>, ByOrder<Max, infinity>>>(scale_halves<Half>, average);
}

/// Its range is so small that 2^-k of a number would often be subnormal: sums are floats.
template <class Combined>
constexpr Kernels f16_kernels() {
  return half_float<Combined, F16s, 0x7c00>({sizeof(float), widen_halves<F16s>, contribute_widened_halves<F16s>,
                                             combine<Real<float>, Sum>, divide_widened_halves<F16s>});
}

constexpr Kernels bf16_kernels() {
  return half_float<Bf16s, Bf16s, 0x7f80>(
      {2, scale_halves<Bf16s>, contribute_halves<Bf16s>, combine_halves<Bf16s, Sum>, divide_halves<Bf16s>});
}

template <class T>
constexpr Kernels complex() {
  constexpr Combine sum = combine_parts<T, Sum>;
  return kernels_of<2 * sizeof(T), sum, multiply_complex<T>, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, sum>(
      scale_parts<T>, {2 * sizeof(T), scale_parts<T>, contribute_parts<T>, sum, divide_parts<T>});
}

}  // namespace

#if defined(TUTTI_TABLE)
extern constexpr Table TUTTI_TABLE{
    TUTTI_ISA,
    copy,
    copy_streaming,
    {integer<std::int8_t>(), integer<std::uint8_t>(), integer<std::int16_t>(), integer<std::uint16_t>(),
     integer<std::int32_t>(), integer<std::uint32_t>(), integer<std::int64_t>(), integer<std::uint64_t>(), boolean(),
     f16_kernels<F16s>(), bf16_kernels(), real<float>(), real<double>(), complex<float>(), complex<double>()}};
#endif

}  // namespace tutti::compute
