// The loops, compiled once per instruction set. Nothing here knows one, but for the two instructions that convert f16:
// compilers vectorise the rest. Included after TUTTI_TABLE is defined as the name of the table to fill, or without one
// where kernels of some types are wanted.
//
// Everything lives in an unnamed namespace or is always_inline, and no function of the standard library is used; see
// table.h for why.

#include <cstdint>
#include <type_traits>

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

/// Elements may lie anywhere and be of another type for the caller.
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

// ---- Elements: how they are stored, and in what they are computed

/// Bit patterns as they are.
template <class T>
struct Raw {
  using Stored = T;
  static T load(T value) { return value; }
  static T store(T value) { return value; }
};

/// Integers modulo 2^bits: unsigned, and at least 32 bits wide so that no promotion to int can overflow.
template <class T>
struct Modular {
  using Stored = std::make_unsigned_t<T>;
  using Wide = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  static Wide load(Stored value) { return value; }
  static Stored store(Wide value) { return static_cast<Stored>(value); }
};

struct Bool {
  using Stored = std::uint8_t;
  static std::uint8_t load(Stored value) { return value != 0 ? 1 : 0; }
  static Stored store(std::uint8_t value) { return value; }
};

/// A NaN in, the NaN with all bits set out.
template <class T>
struct Real {
  using Stored = T;
  using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  static T load(T value) { return value; }
  static T store(T value) {
    const Bits nan = value != value ? ~Bits{0} : Bits{0};
    return __builtin_bit_cast(T, __builtin_bit_cast(Bits, value) | nan);
  }
};

// ---- Ops

struct Sum {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a + b);
  }
};
struct Product {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a * b);
  }
};
struct Min {
  template <class T>
  T operator()(T a, T b) const {
    return b < a ? b : a;
  }
};
struct Max {
  template <class T>
  T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};
struct And {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a ^ b);
  }
};

/// Min or Max of floating types. Operands that compare equal differ at most by the sign of a zero; then the two picks
/// are the two operands, and Merge (Or for Min, And for Max) finds the sign.
template <class Pick, class Merge>
struct Extreme {
  template <class T>
  T operator()(T a, T b) const {
    using Bits = typename Real<T>::Bits;
    const auto picked = Merge{}(__builtin_bit_cast(Bits, Pick{}(a, b)), __builtin_bit_cast(Bits, Pick{}(b, a)));
    const Bits nan = ((a != a) | (b != b)) ? ~Bits{0} : Bits{0};
    return __builtin_bit_cast(T, picked | nan);
  }
};

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

/// `Quotient` is a type whose division, cut off after the point, is exact for integers T: a floating type with eight
/// bits more than T (then a quotient is never rounded up to the next integer), so that the loop vectorises.
template <class Element, class Quotient>
void divide(void* data, std::size_t count, int n) {
  using T = typename Element::Stored;
  const auto by = static_cast<Quotient>(n);
  TUTTI_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) {
    const auto value = static_cast<Quotient>(Element::load(get<T>(data, i)));
    put<T>(data, i, Element::store(static_cast<decltype(Element::load(T{}))>(value / by)));
  }
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
void divide_parts(void* data, std::size_t count, int n) {
  divide<Real<T>, T>(data, 2 * count, n);
}

// GCC 12 makes a fused multiply-add of a product beside a sum and a difference, even where it is told not to fuse
// (AVX-512). Seen through this, the product stays one.
#if defined(__has_builtin)
#if __has_builtin(__builtin_assoc_barrier)
#define TUTTI_ROUNDED(product) __builtin_assoc_barrier(product)
#endif
#endif
#if !defined(TUTTI_ROUNDED)
#define TUTTI_ROUNDED(product) (product)
#endif

template <class T>
void multiply_complex(void* dst, const void* left, const void* right, std::size_t count) {
  TUTTI_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) {
    const T a = get<T>(left, 2 * i), b = get<T>(left, 2 * i + 1);
    const T c = get<T>(right, 2 * i), d = get<T>(right, 2 * i + 1);
    put<T>(dst, 2 * i, Real<T>::store(TUTTI_ROUNDED(a * c) - TUTTI_ROUNDED(b * d)));
    put<T>(dst, 2 * i + 1, Real<T>::store(TUTTI_ROUNDED(a * d) + TUTTI_ROUNDED(b * c)));
  }
}

// ---- The table. Columns: sum product min max band bor bxor avg premul_sum

template <class T>
using Exact = std::conditional_t<sizeof(T) <= 2, float, std::conditional_t<sizeof(T) == 4, double, T>>;

template <class T>
constexpr Kernels integer() {
  using U = Modular<std::make_unsigned_t<T>>;
  return kernels_of<sizeof(T), combine<U, Sum>, combine<U, Product>, combine<Raw<T>, Min>, combine<Raw<T>, Max>,
                    combine<U, And>, combine<U, Or>, combine<U, Xor>, combine<U, Sum>, nullptr>(
      nullptr, divide<Raw<T>, Exact<T>>);
}

constexpr Kernels boolean() {
  constexpr Combine both = combine<Bool, And>;
  constexpr Combine either = combine<Bool, Or>;
  return kernels_of<1, either, both, both, either, both, either, combine<Bool, Xor>, nullptr, nullptr>(nullptr,
                                                                                                       nullptr);
}

template <std::size_t size, Combine sum, Combine product, Combine min, Combine max>
constexpr Kernels floating(Scale by, Divide through) {
  return kernels_of<size, sum, product, min, max, nullptr, nullptr, nullptr, sum, sum>(by, through);
}

template <class T>
constexpr Kernels real() {
  return floating<sizeof(T), combine<Real<T>, Sum>, combine<Real<T>, Product>, combine<Raw<T>, Extreme<Min, Or>>,
                  combine<Raw<T>, Extreme<Max, And>>>(scale<Real<T>>, divide<Real<T>, T>);
}

/// `Half` for all but sums and products.
template <class Combined, class Half, std::uint16_t infinity>
constexpr Kernels half_float() {
  return floating<2, combine_halves<Combined, Sum>, combine_halves<Combined, Product>,
                  combine<Raw<std::uint16_t>, ByOrder<Min, infinity>>,
                  combine<Raw<std::uint16_t>, ByOrder<Max, infinity>>>(scale_halves<Half>, divide_halves<Half>);
}

template <class T>
constexpr Kernels complex() {
  constexpr Combine sum = combine_parts<T, Sum>;
  return kernels_of<2 * sizeof(T), sum, multiply_complex<T>, nullptr, nullptr, nullptr, nullptr, nullptr, sum, sum>(
      scale_parts<T>, divide_parts<T>);
}

}  // namespace

#if defined(TUTTI_TABLE)
extern constexpr Table TUTTI_TABLE{
    TUTTI_ISA,
    copy_streaming,
    {integer<std::int8_t>(), integer<std::uint8_t>(), integer<std::int16_t>(), integer<std::uint16_t>(),
     integer<std::int32_t>(), integer<std::uint32_t>(), integer<std::int64_t>(), integer<std::uint64_t>(), boolean(),
     half_float<F16s, F16s, 0x7c00>(), half_float<Bf16s, Bf16s, 0x7f80>(), real<float>(), real<double>(),
     complex<float>(), complex<double>()}};
#endif

}  // namespace tutti::compute
