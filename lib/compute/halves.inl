// The loops over f16 and bf16: several elements at a time, widened to float and rounded once. Included by kernels.inl
// only, after its own loops.

#include "lib/base/half.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace tutti::compute {
namespace {

// ---- One element

struct F16 {
  using Stored = std::uint16_t;
  static float load(Stored bits) { return half::widen_f16(bits); }
  static Stored store(float value) {
    return static_cast<Stored>(half::round_f16(value) | (value != value ? 0xffffu : 0u));
  }
};

struct Bf16 {
  using Stored = std::uint16_t;
  static float load(Stored bits) { return half::widen_bf16(bits); }
  static Stored store(float value) {
    return static_cast<Stored>(half::round_bf16(value) | (value != value ? 0xffffu : 0u));
  }
};

// ---- Two elements of bf16: each is half of a word and half of a float, so neither has to change its lane

struct TwoFloats {
  float upper, lower;
  TwoFloats(float u, float l) : upper{u}, lower{l} {}
  explicit TwoFloats(double both) : upper{static_cast<float>(both)}, lower{upper} {}
  TwoFloats operator+(TwoFloats b) const { return {upper + b.upper, lower + b.lower}; }
  TwoFloats operator*(TwoFloats b) const { return {upper * b.upper, lower * b.lower}; }
  TwoFloats operator/(TwoFloats b) const { return {upper / b.upper, lower / b.lower}; }
};

struct TwoBf16 {
  using Stored = std::uint32_t;
  static TwoFloats load(Stored bits) { return {half::float_of(bits & 0xffff0000u), half::float_of(bits << 16)}; }
  static Stored store(TwoFloats value) { return (rounded(value.upper) & 0xffff0000u) | (rounded(value.lower) >> 16); }

 private:
  /// In the upper half; as half::round_bf16, with our NaN.
  static std::uint32_t rounded(float value) {
    const std::uint32_t bits = half::bits_of(value);
    return (bits + 0x7fffu + ((bits >> 16) & 1u)) | (value != value ? 0xffffffffu : 0u);
  }
};

struct Bf16s {
  using One = Bf16;
  static constexpr std::size_t at_once = 2;

  template <class Op>
  static void combine_many(void* dst, const void* left, const void* right, std::size_t times) {
    combine<TwoBf16, Op>(dst, left, right, times);
  }
  static void scale_many(void* dst, const void* src, std::size_t times, double factor) {
    scale<TwoBf16>(dst, src, times, factor);
  }
  static void divide_many(void* data, std::size_t times, int n) { divide<TwoBf16, TwoFloats>(data, times, n); }
};

// ---- A vector of f16, through the processor's own conversions where it has them

#if defined(__F16C__)

#if defined(__AVX512F__)

using Floats = __m512;
using Halves = __m256i;

Floats floats_of(float value) { return _mm512_set1_ps(value); }
Floats widened(Halves halves) { return _mm512_cvtph_ps(halves); }
/// All bits set where the value is a NaN.
Halves narrowed(Floats value) {
  const __mmask16 is_number = _mm512_cmp_ps_mask(value, value, _CMP_ORD_Q);
  return _mm512_mask_cvtps_ph(_mm256_set1_epi16(-1), is_number, value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

#else

using Floats = __m256;
using Halves = __m128i;

Floats floats_of(float value) { return _mm256_set1_ps(value); }
Floats widened(Halves halves) { return _mm256_cvtph_ps(halves); }
/// The conversion keeps a NaN a NaN; then all its bits are set.
Halves narrowed(Floats value) {
  const Halves halves = _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const Halves magnitude = _mm_and_si128(halves, _mm_set1_epi16(0x7fff));
  return _mm_or_si128(halves, _mm_cmpgt_epi16(magnitude, _mm_set1_epi16(0x7c00)));
}

#endif

struct F16s {
  using One = F16;
  static constexpr std::size_t at_once = sizeof(Halves) / 2;

  static Floats load(const void* from, std::size_t i) { return widened(get<Halves>(from, i)); }
  static void store(void* to, std::size_t i, Floats value) { put<Halves>(to, i, narrowed(value)); }

  template <class Op>
  static void combine_many(void* dst, const void* left, const void* right, std::size_t times) {
    for (std::size_t i = 0; i < times; ++i) store(dst, i, Op{}(load(left, i), load(right, i)));
  }
  static void scale_many(void* dst, const void* src, std::size_t times, double factor) {
    const Floats by = floats_of(static_cast<float>(factor));
    for (std::size_t i = 0; i < times; ++i) store(dst, i, load(src, i) * by);
  }
  static void divide_many(void* data, std::size_t times, int n) {
    const Floats by = floats_of(static_cast<float>(n));
    for (std::size_t i = 0; i < times; ++i) store(data, i, load(data, i) / by);
  }
};

#else

struct F16s {
  using One = F16;
  static constexpr std::size_t at_once = 1;

  template <class Op>
  static void combine_many(void* dst, const void* left, const void* right, std::size_t times) {
    combine<F16, Op>(dst, left, right, times);
  }
  static void scale_many(void* dst, const void* src, std::size_t times, double factor) {
    scale<F16>(dst, src, times, factor);
  }
  static void divide_many(void* data, std::size_t times, int n) { divide<F16, float>(data, times, n); }
};

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
void divide_halves(void* data, std::size_t count, int n) {
  const std::size_t rest = count % Half::at_once, done = 2 * (count - rest);
  Half::divide_many(data, count / Half::at_once, n);
  divide<typename Half::One, float>(forward(data, done), rest, n);
}

/// Min or Max, on the bits: flipping the magnitude of negative numbers makes their order that of signed integers, with
/// -0 just below +0. No step needs more than 16 bits, so compilers stay with vectors of those.
template <class Pick, std::uint16_t infinity>
struct ByOrder {
  using Bits = std::uint16_t;
  using Key = std::int16_t;

  static Key key(Bits bits) {
    const auto sign = static_cast<Bits>(static_cast<Key>(bits) >> 15);
    return static_cast<Key>(bits ^ (sign >> 1));
  }
  static Key magnitude(Bits bits) { return static_cast<Key>(bits & 0x7fff); }

  Bits operator()(Bits a, Bits b) const {
    const Bits picked = static_cast<Bits>(key(static_cast<Bits>(Pick{}(key(a), key(b)))));
    const Bits nan = Max{}(magnitude(a), magnitude(b)) > Key{infinity} ? 0xffff : 0;
    return static_cast<Bits>(picked | nan);
  }
};

}  // namespace
}  // namespace tutti::compute
