// The kernels of GPUs. Compiled by nvcc (kernels.cu), and for the host by tests, which run the same code without a GPU.
//
// All kernels are one: a fold. It reads up to 16 inputs, folds them from the left element by element, and writes the
// result to up to 16 outputs. With two inputs that is a combine, with one a copy, a multiplication or a division; with
// two outputs it also passes the result on; with the vectors of all ranks it is a whole all_reduce. Elements and ops
// are those of the CPU (elements.inl), in the same order and rounded at the same places, so that the bits are the
// CPU's.
//
// A file that includes this defines how a thread finds its work and touches memory:
//
//   Grid    index() and stride(): the first element or vector of this thread, and the distance to its next one
//   Memory  load<T>(address, i) and store<T>(address, i, value): element i of the array of T at `address`
//
// TUTTI_GPU_FUNCTION marks a function that runs on the GPU. TUTTI_F16 and TUTTI_BF16 may name elements that convert by
// the GPU's own instructions.

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "lib/compute/elements.inl"
#include "lib/compute/gpu/arguments.h"

#if defined(__CUDACC__)
#define TUTTI_UNROLL _Pragma("unroll")
#define TUTTI_NO_UNROLL _Pragma("unroll 1")
#else
#define TUTTI_UNROLL
#define TUTTI_NO_UNROLL
#endif

#if !defined(TUTTI_F16)
#define TUTTI_F16 F16
#define TUTTI_BF16 Bf16
#endif

namespace tutti::compute::gpu {
namespace {

// ---- Ops as they are: inputs and outputs hold elements

template <class Element, class Op>
struct Combined {
  using First = typename Element::Stored;
  using Next = First;
  using Total = First;
  using Result = First;
  TUTTI_GPU_FUNCTION static Total first(First value, const FoldArguments&) { return value; }
  TUTTI_GPU_FUNCTION static Total next(Total total, Next value, const FoldArguments&) {
    return Element::store(Op{}(Element::load(total), Element::load(value)));
  }
  TUTTI_GPU_FUNCTION static Result last(Total total, const FoldArguments&) { return total; }
};

template <class T>
struct ComplexElement {
  using Stored = Complex<T>;
  TUTTI_GPU_FUNCTION static Stored load(Stored value) { return value; }
  TUTTI_GPU_FUNCTION static Stored store(Stored value) { return value; }
};

struct ComplexProduct {
  template <class T>
  TUTTI_GPU_FUNCTION Complex<T> operator()(Complex<T> a, Complex<T> b) const {
    return multiplied(a, b);
  }
};

// ---- Averages, and premul_sum: how an element becomes a contribution, how those are summed, and what the sum becomes

/// Sums have the elements' type: contributions are multiplied by a factor.
template <class Element>
struct Scaled {
  using Stored = typename Element::Stored;
  using Sum = Stored;
  using Wide = decltype(Element::load(Stored{}));
  TUTTI_GPU_FUNCTION static Sum part(Stored value, const FoldArguments& arguments) {
    return Element::store(Element::load(value) * static_cast<Wide>(arguments.factor));
  }
  TUTTI_GPU_FUNCTION static Sum add(Sum a, Sum b) { return Element::store(Element::load(a) + Element::load(b)); }
  TUTTI_GPU_FUNCTION static Stored over(Sum sum, const FoldArguments& arguments) {
    return Element::store(Element::load(sum) / static_cast<Wide>(arguments.divisor));
  }
};

/// Sums of f16 are floats. A NaN among them has all bits set, on the CPU any; it becomes the same average.
struct WidenedF16 {
  using Stored = std::uint16_t;
  using Sum = float;
  TUTTI_GPU_FUNCTION static Sum part(Stored value, const FoldArguments&) {
    return Real<float>::store(TUTTI_F16::load(value));
  }
  TUTTI_GPU_FUNCTION static Sum add(Sum a, Sum b) { return Real<float>::store(a + b); }
  TUTTI_GPU_FUNCTION static Stored over(Sum sum, const FoldArguments& arguments) {
    return TUTTI_F16::store(sum / static_cast<float>(arguments.divisor));
  }
};

/// Sums of integers are exact, and so is the quotient, which is rounded towards zero.
template <class T>
struct WidenedInteger {
  using Stored = T;
  using Sum = typename SumOf<T>::Type;
  TUTTI_GPU_FUNCTION static Sum part(Stored value, const FoldArguments&) { return static_cast<Sum>(value); }
  TUTTI_GPU_FUNCTION static Sum add(Sum a, Sum b) { return a + b; }
  TUTTI_GPU_FUNCTION static Stored over(Sum sum, const FoldArguments& arguments) {
    if constexpr (sizeof(Sum) == 16) {
      const auto divisor = static_cast<std::uint32_t>(arguments.divisor);
      bool negative = false;
      if constexpr (std::is_signed_v<T>) negative = sum < 0;
      const auto magnitude = static_cast<Uint128>(sum);
      const Uint128 result = quotient(negative ? -magnitude : magnitude, divisor);
      return static_cast<Stored>(negative ? -result : result);
    } else {
      return static_cast<Stored>(sum / static_cast<Sum>(arguments.divisor));
    }
  }

 private:
  /// dividend / divisor, digit by digit of 32 bits: a GPU has no division of 128 bits.
  TUTTI_GPU_FUNCTION static Uint128 quotient(Uint128 dividend, std::uint32_t divisor) {
    Uint128 result = 0;
    std::uint64_t rest = 0;
    TUTTI_NO_UNROLL
    for (int shift = 96; shift >= 0; shift -= 32) {
      rest = (rest << 32) | static_cast<std::uint32_t>(dividend >> shift);
      result = (result << 32) | (rest / divisor);
      rest %= divisor;
    }
    return result;
  }
};

/// Elements in, the sum of their contributions out.
template <class Sums>
struct Begun {
  using First = typename Sums::Stored;
  using Next = First;
  using Total = typename Sums::Sum;
  using Result = Total;
  TUTTI_GPU_FUNCTION static Total first(First value, const FoldArguments& a) { return Sums::part(value, a); }
  TUTTI_GPU_FUNCTION static Total next(Total total, Next value, const FoldArguments& a) {
    return Sums::add(total, Sums::part(value, a));
  }
  TUTTI_GPU_FUNCTION static Result last(Total total, const FoldArguments&) { return total; }
};

/// A sum and elements in, the sum with their contributions out.
template <class Sums>
struct Contributed : Begun<Sums> {
  using First = typename Sums::Sum;
  TUTTI_GPU_FUNCTION static First first(First value, const FoldArguments&) { return value; }
};

/// Elements in, their average out.
template <class Sums>
struct Averaged : Begun<Sums> {
  using Result = typename Sums::Stored;
  TUTTI_GPU_FUNCTION static Result last(typename Sums::Sum total, const FoldArguments& a) {
    return Sums::over(total, a);
  }
};

/// Sums in, the average out.
template <class Sums>
struct Finished {
  using First = typename Sums::Sum;
  using Next = First;
  using Total = First;
  using Result = typename Sums::Stored;
  TUTTI_GPU_FUNCTION static Total first(First value, const FoldArguments&) { return value; }
  TUTTI_GPU_FUNCTION static Total next(Total total, Next value, const FoldArguments&) {
    return Sums::add(total, value);
  }
  TUTTI_GPU_FUNCTION static Result last(Total total, const FoldArguments& a) { return Sums::over(total, a); }
};

// ---- The fold

/// Neighbours that one thread loads at once, in pieces of 16 bytes.
template <class T, int n>
struct alignas(n == 1 ? alignof(T) : 16) Vector {
  T at[static_cast<std::size_t>(n)];
};

template <class Rule>
constexpr int lanes_of() {
  constexpr std::size_t first = sizeof(typename Rule::First), next = sizeof(typename Rule::Next);
  constexpr std::size_t result = sizeof(typename Rule::Result);
  constexpr std::size_t least = first < next ? (first < result ? first : result) : (next < result ? next : result);
  return static_cast<int>(16 / least);
}

/// Folds vectors `from` to `to` - 1 of `n` elements. The next input is loaded before the last one is folded, so that
/// the memory always has something to do.
template <class Rule, int n, class Grid, class Memory>
TUTTI_GPU_FUNCTION void fold_vectors(const FoldArguments& a, std::uint64_t from, std::uint64_t to, Grid grid,
                                     Memory memory) {
  using First = Vector<typename Rule::First, n>;
  using Next = Vector<typename Rule::Next, n>;
  TUTTI_NO_UNROLL
  for (std::uint64_t i = from + grid.index(); i < to; i += grid.stride()) {
    const First first = memory.template load<First>(a.inputs[0], i);
    Next next{};
    if (a.input_count > 1) next = memory.template load<Next>(a.inputs[1], i);
    Vector<typename Rule::Total, n> total;
    TUTTI_UNROLL
    for (int e = 0; e < n; ++e) total.at[e] = Rule::first(first.at[e], a);
    TUTTI_NO_UNROLL
    for (int input = 1; input < a.input_count; ++input) {
      const Next now = next;
      if (input + 1 < a.input_count) next = memory.template load<Next>(a.inputs[input + 1], i);
      TUTTI_UNROLL
      for (int e = 0; e < n; ++e) total.at[e] = Rule::next(total.at[e], now.at[e], a);
    }
    Vector<typename Rule::Result, n> result;
    TUTTI_UNROLL
    for (int e = 0; e < n; ++e) result.at[e] = Rule::last(total.at[e], a);
    TUTTI_NO_UNROLL
    for (int output = 0; output < a.output_count; ++output) memory.store(a.outputs[output], i, result);
  }
}

template <class Rule, class Grid, class Memory>
TUTTI_GPU_FUNCTION void fold(const FoldArguments& a, Grid grid, Memory memory) {
  std::uint64_t bits = 0;
  TUTTI_NO_UNROLL
  for (int input = 0; input < a.input_count; ++input) bits |= a.inputs[input];
  TUTTI_NO_UNROLL
  for (int output = 0; output < a.output_count; ++output) bits |= a.outputs[output];
  constexpr int lanes = lanes_of<Rule>();
  const std::uint64_t vectors = bits % 16 == 0 ? a.count / lanes : 0;
  fold_vectors<Rule, lanes>(a, 0, vectors, grid, memory);
  if constexpr (lanes > 1) fold_vectors<Rule, 1>(a, vectors * lanes, a.count, grid, memory);
}

}  // namespace
}  // namespace tutti::compute::gpu
