// The loops over f16 and bf16: several elements at a time, widened to float and rounded once. Included by kernels.inl
// only, after its own loops.

#include "lib/base/half.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace tutti::compute {
namespace {

// ---- Two elements of bf16: each is half of a word and half of a float, so neither has to change its lane

/// Lane::Type: float, or a vector of them (which as a template's argument would lose its attributes).
template <class Lane>
struct Two {
  using T = typename Lane::Type;
  T upper, lower;
  Two(T u, T l) : upper{u}, lower{l} {}
  explicit Two(double both) : upper{static_cast<float>(both)}, lower{upper} {}
  Two operator+(Two b) const { return {upper + b.upper, lower + b.lower}; }
  Two operator*(Two b) const { return {upper * b.upper, lower * b.lower}; }
  Two operator/(Two b) const { return {upper / b.upper, lower / b.lower}; }
};

struct OneFloat {
  using Type = float;
};
using TwoFloats = Two<OneFloat>;

struct TwoBf16 {
  using Stored = std::uint32_t;
  static TwoFloats load(Stored bits) { return {half::float_of(bits & 0xffff0000u), half::float_of(bits << 16)}; }
  static Stored store(TwoFloats value) { return (rounded(value.upper) & 0xffff0000u) | (rounded(value.lower) >> 16); }
  static Stored round(TwoFloats value) { return store(value); }

 private:
  /// In the upper half; as half::round_bf16, with our NaN.
  static std::uint32_t rounded(float value) {
    const std::uint32_t bits = half::bits_of(value);
    return (bits + 0x7fffu + ((bits >> 16) & 1u)) | (value != value ? 0xffffffffu : 0u);
  }
};

// ---- Averages whose sums are floats

template <class Element>
void widen_each(void* dst, const void* src, std::size_t count) {
  TUTTI_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) put<float>(dst, i, Element::load(get<std::uint16_t>(src, i)));
}

template <class Element>
void contribute_widened_each(void* dst, const void* sum, const void* src, std::size_t count) {
  TUTTI_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i)
    put<float>(dst, i, get<float>(sum, i) + Element::load(get<std::uint16_t>(src, i)));
}

template <class Element>
void divide_widened_each(void* dst, const void* sum, std::size_t count, double divisor) {
  const auto by = static_cast<float>(divisor);
  TUTTI_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) put<std::uint16_t>(dst, i, Element::store(get<float>(sum, i) / by));
}

// ---- How many are computed at a time: `Element` is `at_once` neighbours, of type One each

template <class One_, class Element, std::size_t at_once_>
struct Plain {
  using One = One_;
  static constexpr std::size_t at_once = at_once_;

  template <class Op>
  static void combine_many(void* dst, const void* left, const void* right, std::size_t times) {
    combine<Element, Op>(dst, left, right, times);
  }
  static void scale_many(void* dst, const void* src, std::size_t times, double factor) {
    scale<Element>(dst, src, times, factor);
  }
  static void contribute_many(void* dst, const void* sum, const void* src, std::size_t times, double factor) {
    contribute<Element>(dst, sum, src, times, factor);
  }
  static void divide_many(void* dst, const void* sum, std::size_t times, double divisor) {
    divide<Element>(dst, sum, times, divisor);
  }
  static void widen_many(void* dst, const void* src, std::size_t times) { widen_each<Element>(dst, src, times); }
  static void contribute_widened_many(void* dst, const void* sum, const void* src, std::size_t times) {
    contribute_widened_each<Element>(dst, sum, src, times);
  }
  static void divide_widened_many(void* dst, const void* sum, std::size_t times, double divisor) {
    divide_widened_each<Element>(dst, sum, times, divisor);
  }
};

/// A whole vector of the processor's, in its own instructions.
template <class One_, class Vector>
struct Vectors {
  using One = One_;
  static constexpr std::size_t at_once = sizeof(typename Vector::Stored) / 2;

  static auto load(const void* from, std::size_t i) { return Vector::load(get<typename Vector::Stored>(from, i)); }
  static void store(void* to, std::size_t i, typename Vector::Wide value) {
    put<typename Vector::Stored>(to, i, Vector::store(value));
  }

  template <class Op>
  static void combine_many(void* dst, const void* left, const void* right, std::size_t times) {
    TUTTI_UNROLLED
    for (std::size_t i = 0; i < times; ++i) store(dst, i, Op{}(load(left, i), load(right, i)));
  }
  static void scale_many(void* dst, const void* src, std::size_t times, double factor) {
    const auto by = Vector::spread(static_cast<float>(factor));
    TUTTI_UNROLLED
    for (std::size_t i = 0; i < times; ++i) store(dst, i, load(src, i) * by);
  }
  static void contribute_many(void* dst, const void* sum, const void* src, std::size_t times, double factor) {
    const auto by = Vector::spread(static_cast<float>(factor));
    TUTTI_UNROLLED
    for (std::size_t i = 0; i < times; ++i)
      store(dst, i, load(sum, i) + Vector::load(Vector::store(load(src, i) * by)));
  }
  static void divide_many(void* dst, const void* sum, std::size_t times, double divisor) {
    const auto by = Vector::spread(static_cast<float>(divisor));
    for (std::size_t i = 0; i < times; ++i) store(dst, i, load(sum, i) / by);
  }

  // Sums are floats: a vector of them, `Wide`, for every `Stored`.
  static void widen_many(void* dst, const void* src, std::size_t times) {
    TUTTI_UNROLLED
    for (std::size_t i = 0; i < times; ++i) put<typename Vector::Wide>(dst, i, load(src, i));
  }
  static void contribute_widened_many(void* dst, const void* sum, const void* src, std::size_t times) {
    TUTTI_UNROLLED
    for (std::size_t i = 0; i < times; ++i)
      put<typename Vector::Wide>(dst, i, get<typename Vector::Wide>(sum, i) + load(src, i));
  }
  static void divide_widened_many(void* dst, const void* sum, std::size_t times, double divisor) {
    const auto by = Vector::spread(static_cast<float>(divisor));
    for (std::size_t i = 0; i < times; ++i) store(dst, i, get<typename Vector::Wide>(sum, i) / by);
  }
};

#if defined(__AVX512F__)

// Comparisons have their result in a mask register, which is slow: each costs as much as a conversion. Another
// instruction classifies every float and takes the other operand for a NaN.

__m512 nan_as(std::uint32_t nan, __m512 value) {
  const __m512 bits = _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(nan)));
  return _mm512_fixupimm_ps(bits, value, _mm512_set1_epi32(0x11111100), 0);  // from digits 0 and 1, the NaNs: bits
}

struct VectorOfF16 {
  using Stored = __m256i;
  using Wide = __m512;
  static Wide spread(float value) { return _mm512_set1_ps(value); }
  static Wide load(Stored halves) { return _mm512_cvtph_ps(halves); }
  static Stored store(Wide value) {
    return _mm512_cvtps_ph(nan_as(0xffffffff, value), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
};

struct VectorOfBf16 {
  using Stored = __m512i;
  struct Lane {
    using Type = __m512;
  };
  using Wide = Two<Lane>;
  static constexpr __mmask32 uppers = 0xaaaaaaaa;

  static Wide spread(float value) { return {_mm512_set1_ps(value), _mm512_set1_ps(value)}; }
  static Wide load(Stored bits) {
    return {_mm512_castsi512_ps(bits & _mm512_set1_epi32(static_cast<int>(0xffff0000))),
            _mm512_castsi512_ps(_mm512_slli_epi32(bits, 16))};
  }
  /// As half::round_bf16, for both halves at once: what is kept, and next to it what is dropped. The average rounds
  /// up, and so has a carry in its first bit where dropped + 0x7fff + (1 if kept is odd) has one.
  static Stored store(Wide value) {
    const __m512i upper = _mm512_castps_si512(nan_as(0xffff0000, value.upper));
    const __m512i lower = _mm512_castps_si512(nan_as(0xffff0000, value.lower));
    const __m512i kept = _mm512_mask_mov_epi16(_mm512_srli_epi32(lower, 16), uppers, upper);
    const __m512i dropped = _mm512_mask_mov_epi16(lower, uppers, _mm512_slli_epi32(upper, 16));
    const __m512i half = (kept & _mm512_set1_epi16(1)) | _mm512_set1_epi16(0x7ffe);
    return _mm512_add_epi16(kept, _mm512_srli_epi16(_mm512_avg_epu16(dropped, half), 15));
  }
};

using F16s = Vectors<F16, VectorOfF16>;
using Bf16s = Vectors<Bf16, VectorOfBf16>;

#if defined(__AVX512FP16__)

/// In the processor's own arithmetic, for sums and products. These have the bits of float's, rounded: float has more
/// than twice f16's digits, so that rounding twice is as rounding once (S. Figueroa, "When is double rounding
/// innocuous?", 1995), and all 2^32 pairs were compared. It takes no notice of the modes that make subnormal numbers
/// zeros.
struct NativeF16 {
  using Stored = __m512i;
  struct Wide {
    __m512h value;
    Wide operator+(Wide b) const { return {_mm512_add_ph(value, b.value)}; }
    Wide operator*(Wide b) const { return {_mm512_mul_ph(value, b.value)}; }
  };
  static Wide load(Stored bits) { return {_mm512_castsi512_ph(bits)}; }
  static Stored store(Wide wide) {
    const __mmask32 nans = _mm512_mask_cmp_ph_mask(~__mmask32{0}, wide.value, wide.value, _CMP_UNORD_Q);
    return _mm512_mask_mov_epi16(_mm512_castph_si512(wide.value), nans, _mm512_set1_epi16(-1));
  }
};

using CombinedF16s = Vectors<F16, NativeF16>;

#endif

#elif defined(__F16C__)

struct VectorOfF16 {
  using Stored = __m128i;
  using Wide = __m256;
  static Wide spread(float value) { return _mm256_set1_ps(value); }
  static Wide load(Stored halves) { return _mm256_cvtph_ps(halves); }
  /// The conversion keeps a NaN a NaN; then all its bits are set.
  static Stored store(Wide value) {
    const Stored halves = _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const Stored magnitude = _mm_and_si128(halves, _mm_set1_epi16(0x7fff));
    return _mm_or_si128(halves, _mm_cmpgt_epi16(magnitude, _mm_set1_epi16(0x7c00)));
  }
};

using F16s = Vectors<F16, VectorOfF16>;
using Bf16s = Plain<Bf16, TwoBf16, 2>;

#else

using F16s = Plain<F16, F16, 1>;
using Bf16s = Plain<Bf16, TwoBf16, 2>;

#endif

// ---- Kernels: many at a time, and the rest one by one

template <class Half, class Op>
void combine_halves(void* dst, const void* left, const void* right, std::size_t count) {
  const std::size_t rest = count % Half::at_once, done = 2 * (count - rest);
  Half::template combine_many<Op>(dst, left, right, count / Half::at_once);
  combine<typename Half::One, Op>(forward(dst, done), forward(left, done), forward(right, done), rest);
}

template <class Half>
void scale_halves(void* dst, const void* src, std::size_t count, double factor) {
  const std::size_t rest = count % Half::at_once, done = 2 * (count - rest);
  Half::scale_many(dst, src, count / Half::at_once, factor);
  scale<typename Half::One>(forward(dst, done), forward(src, done), rest, factor);
}

template <class Half>
void contribute_halves(void* dst, const void* sum, const void* src, std::size_t count, double factor) {
  const std::size_t rest = count % Half::at_once, done = 2 * (count - rest);
  Half::contribute_many(dst, sum, src, count / Half::at_once, factor);
  contribute<typename Half::One>(forward(dst, done), forward(sum, done), forward(src, done), rest, factor);
}

template <class Half>
void divide_halves(void* dst, const void* sum, std::size_t count, double divisor) {
  const std::size_t rest = count % Half::at_once, done = 2 * (count - rest);
  Half::divide_many(dst, sum, count / Half::at_once, divisor);
  divide<typename Half::One>(forward(dst, done), forward(sum, done), rest, divisor);
}

template <class Half>
void widen_halves(void* dst, const void* src, std::size_t count, double) {
  const std::size_t rest = count % Half::at_once, done = 2 * (count - rest);
  Half::widen_many(dst, src, count / Half::at_once);
  widen_each<typename Half::One>(forward(dst, 2 * done), forward(src, done), rest);
}

template <class Half>
void contribute_widened_halves(void* dst, const void* sum, const void* src, std::size_t count, double) {
  const std::size_t rest = count % Half::at_once, done = 2 * (count - rest);
  Half::contribute_widened_many(dst, sum, src, count / Half::at_once);
  contribute_widened_each<typename Half::One>(forward(dst, 2 * done), forward(sum, 2 * done), forward(src, done), rest);
}

template <class Half>
void divide_widened_halves(void* dst, const void* sum, std::size_t count, double divisor) {
  const std::size_t rest = count % Half::at_once, done = 2 * (count - rest);
  Half::divide_widened_many(dst, sum, count / Half::at_once, divisor);
  divide_widened_each<typename Half::One>(forward(dst, done), forward(sum, 2 * done), rest, divisor);
}

}  // namespace
}  // namespace tutti::compute
