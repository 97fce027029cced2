// Elements and ops: what one combine of two elements is, for the loops of processors (kernels.inl) and for the kernels
// of GPUs (gpu/kernels.inl), so that both have the same bits. All is constexpr, which lets nvcc compile it for a GPU as
// well.
//
// Everything lives in an unnamed namespace or is always_inline, and no function of the standard library is used; see
// table.h for why.

#pragma once

#include <cstdint>
#include <type_traits>

#include "lib/base/half.h"

// GCC 12 makes a fused multiply-add of a product beside a sum and a difference, even where it is told not to fuse
// (AVX-512). Seen through this, the product stays one. (nvcc has an option of its own, and only GCC's list of
// builtins.)
#if defined(__has_builtin) && !defined(__CUDACC__)
#if __has_builtin(__builtin_assoc_barrier)
#define TUTTI_ROUNDED(product) __builtin_assoc_barrier(product)
#endif
#endif
#if !defined(TUTTI_ROUNDED)
#define TUTTI_ROUNDED(product) (product)
#endif

namespace tutti::compute {
namespace {

// ---- Elements: how they are stored, and in what they are computed

/// Bit patterns as they are.
template <class T>
struct Raw {
  using Stored = T;
  static constexpr T load(T value) { return value; }
  static constexpr T store(T value) { return value; }
};

/// Integers modulo 2^bits: unsigned, and at least 32 bits wide so that no promotion to int can overflow.
template <class T>
struct Modular {
  using Stored = std::make_unsigned_t<T>;
  using Wide = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  static constexpr Wide load(Stored value) { return value; }
  static constexpr Stored store(Wide value) { return static_cast<Stored>(value); }
};

struct Bool {
  using Stored = std::uint8_t;
  static constexpr std::uint8_t load(Stored value) { return value != 0 ? 1 : 0; }
  static constexpr Stored store(std::uint8_t value) { return value; }
};

/// A NaN in, the NaN with all bits set out.
template <class T>
struct Real {
  using Stored = T;
  using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  static constexpr T load(T value) { return value; }
  static constexpr T round(T product) { return TUTTI_ROUNDED(product); }
  static constexpr T store(T value) {
    const Bits nan = value != value ? ~Bits{0} : Bits{0};
    return __builtin_bit_cast(T, __builtin_bit_cast(Bits, value) | nan);
  }
};

// ---- Ops

struct Sum {
  template <class T>
  constexpr T operator()(T a, T b) const {
    return static_cast<T>(a + b);
  }
};
struct Product {
  template <class T>
  constexpr T operator()(T a, T b) const {
    return static_cast<T>(a * b);
  }
};
struct Min {
  template <class T>
  constexpr T operator()(T a, T b) const {
    return b < a ? b : a;
  }
};
struct Max {
  template <class T>
  constexpr T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};
struct And {
  template <class T>
  constexpr T operator()(T a, T b) const {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <class T>
  constexpr T operator()(T a, T b) const {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <class T>
  constexpr T operator()(T a, T b) const {
    return static_cast<T>(a ^ b);
  }
};

/// Min or Max of floating types. Operands that compare equal differ at most by the sign of a zero; then the two picks
/// are the two operands, and Merge (Or for Min, And for Max) finds the sign.
template <class Pick, class Merge>
struct Extreme {
  template <class T>
  constexpr T operator()(T a, T b) const {
    using Bits = typename Real<T>::Bits;
    const auto picked = Merge{}(__builtin_bit_cast(Bits, Pick{}(a, b)), __builtin_bit_cast(Bits, Pick{}(b, a)));
    const Bits nan = ((a != a) | (b != b)) ? ~Bits{0} : Bits{0};
    return __builtin_bit_cast(T, picked | nan);
  }
};

// ---- Sums of integers for averages: of 32, 64 and 128 bits, exact for 65,536 ranks and more

__extension__ using Int128 = __int128;
__extension__ using Uint128 = unsigned __int128;

template <class T>
struct SumOf {
  static constexpr bool is_signed = std::is_signed_v<T>;
  template <class Signed, class Unsigned>
  using Either = std::conditional_t<is_signed, Signed, Unsigned>;
  using Type = std::conditional_t<
      sizeof(T) <= 2, Either<std::int32_t, std::uint32_t>,
      std::conditional_t<sizeof(T) == 4, Either<std::int64_t, std::uint64_t>, Either<Int128, Uint128>>>;
};

// ---- 16-bit floats are computed in float, and rounded once

struct F16 {
  using Stored = std::uint16_t;
  static constexpr float load(Stored bits) { return half::widen_f16(bits); }
  static constexpr Stored store(float value) {
    return static_cast<Stored>(half::round_f16(value) | (value != value ? 0xffffu : 0u));
  }
};

struct Bf16 {
  using Stored = std::uint16_t;
  static constexpr float load(Stored bits) { return half::widen_bf16(bits); }
  static constexpr Stored store(float value) {
    return static_cast<Stored>(half::round_bf16(value) | (value != value ? 0xffffu : 0u));
  }
  static constexpr Stored round(float value) { return store(value); }
};

/// Min or Max, on the bits: flipping the magnitude of negative numbers makes their order that of signed integers, with
/// -0 just below +0. No step needs more than 16 bits, so compilers stay with vectors of those.
template <class Pick, std::uint16_t infinity>
struct ByOrder {
  using Bits = std::uint16_t;
  using Key = std::int16_t;

  static constexpr Key key(Bits bits) {
    const auto sign = static_cast<Bits>(static_cast<Key>(bits) >> 15);
    return static_cast<Key>(bits ^ (sign >> 1));
  }
  static constexpr Key magnitude(Bits bits) { return static_cast<Key>(bits & 0x7fff); }

  constexpr Bits operator()(Bits a, Bits b) const {
    const Bits picked = static_cast<Bits>(key(static_cast<Bits>(Pick{}(key(a), key(b)))));
    const Bits nan = Max{}(magnitude(a), magnitude(b)) > Key{infinity} ? 0xffff : 0;
    return static_cast<Bits>(picked | nan);
  }
};

// ---- Complex numbers: two reals side by side

template <class T>
struct Complex {
  T real, imaginary;
};

/// Without the infinity rules of C's annex G.
template <class T>
constexpr Complex<T> multiplied(Complex<T> a, Complex<T> b) {
  return {Real<T>::store(TUTTI_ROUNDED(a.real * b.real) - TUTTI_ROUNDED(a.imaginary * b.imaginary)),
          Real<T>::store(TUTTI_ROUNDED(a.real * b.imaginary) + TUTTI_ROUNDED(a.imaginary * b.real))};
}

}  // namespace
}  // namespace tutti::compute
