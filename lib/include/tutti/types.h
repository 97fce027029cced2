#pragma once

#include <bit>
#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <type_traits>
#include <utility>

#include "tutti/export.h"
#include "tutti/user_function.h"

namespace tutti {
inline namespace TUTTI_ABI {

/// IEEE 754 half precision, for storage. Reductions widen to float and round to nearest even.
struct TUTTI_API f16 {
  std::uint16_t bits = 0;

  f16() = default;
  explicit f16(float value);
  explicit operator float() const;
  friend bool operator==(f16, f16) = default;
};

/// The upper half of a float ("brain float"), for storage. Reductions widen to float and round to nearest even.
struct TUTTI_API bf16 {
  std::uint16_t bits = 0;

  bf16() = default;
  explicit bf16(float value);
  explicit operator float() const;
  friend bool operator==(bf16, bf16) = default;
};

enum class Collective : std::uint8_t {
  all_reduce,
  reduce,
  broadcast,
  all_gather,
  reduce_scatter,
  scatter,
  gather,
  all_to_all,
  barrier,
  scan,
  exclusive_scan,
};
inline constexpr int collective_count = 11;
/// "all_reduce", "barrier" ...
TUTTI_API const char* name_of(Collective collective);

enum class DataType : std::uint8_t {
  i8,
  u8,
  i16,
  u16,
  i32,
  u32,
  i64,
  u64,
  boolean,
  f16,
  bf16,
  f32,
  f64,
  c64,
  c128,
};
inline constexpr int data_type_count = 15;

/// Bytes of one element.
TUTTI_API std::size_t size_of(DataType type);
/// "i8", "f32", "c128", "bool" ...
TUTTI_API const char* name_of(DataType type);

}  // namespace TUTTI_ABI
}  // namespace tutti

namespace tutti::detail {
inline namespace TUTTI_ABI {

template <class T>
consteval int data_type_index() {
  if constexpr (std::same_as<T, bool>)
    return static_cast<int>(DataType::boolean);
  else if constexpr (std::same_as<T, f16>)
    return static_cast<int>(DataType::f16);
  else if constexpr (std::same_as<T, bf16>)
    return static_cast<int>(DataType::bf16);
  else if constexpr (std::same_as<T, float>)
    return static_cast<int>(DataType::f32);
  else if constexpr (std::same_as<T, double>)
    return static_cast<int>(DataType::f64);
  else if constexpr (std::same_as<T, std::complex<float>>)
    return static_cast<int>(DataType::c64);
  else if constexpr (std::same_as<T, std::complex<double>>)
    return static_cast<int>(DataType::c128);
  else if constexpr (std::same_as<T, std::byte>)
    return static_cast<int>(DataType::u8);
  else if constexpr (std::integral<T> && sizeof(T) <= 8)
    return 2 * std::countr_zero(sizeof(T)) + (std::is_signed_v<T> ? 0 : 1);
  else
    return -1;
}

}  // namespace TUTTI_ABI
}  // namespace tutti::detail

namespace tutti {
inline namespace TUTTI_ABI {

/// A type whose arrays tutti can move from rank to rank: any that memcpy may copy, except pointers, which mean nothing
/// in another process. Pointers inside a struct mean nothing there either, but are not detected.
template <class T>
concept Element = std::is_trivially_copyable_v<std::remove_cv_t<T>> && !std::is_pointer_v<std::remove_cv_t<T>> &&
                  !std::is_member_pointer_v<std::remove_cv_t<T>>;

/// An element that reductions can combine: integers of up to 64 bits (characters too), bool, std::byte (as u8), f16,
/// bf16, float, double, and std::complex of the last two.
template <class T>
concept Reducible = Element<T> && detail::data_type_index<std::remove_cv_t<T>>()
>= 0;

/// The type under which elements are sent. One that is not Reducible is sent as sizeof(T) bytes.
template <Element T>
inline constexpr DataType data_type_of = Reducible<T>
                                             ? static_cast<DataType>(detail::data_type_index<std::remove_cv_t<T>>())
                                             : DataType::u8;

/// Elements one after the other in memory: std::vector, std::array, std::span, a C array ... (Not std::vector<bool>.)
template <class R>
concept Elements =
    std::ranges::contiguous_range<R> && std::ranges::sized_range<R> && Element<std::ranges::range_value_t<R>>;
/// The same, writable.
template <class R>
concept MutableElements =
    Elements<R> && std::indirectly_writable<std::ranges::iterator_t<R>, std::ranges::range_value_t<R>>;

enum class OpKind : std::uint8_t { sum, product, min, max, band, bor, bxor, avg, premul_sum, user };

/// How a reduction combines two elements. Use the constants below, premul_sum() or user_op().
///
/// An op must be associative and commutative, since algorithms combine ranks in different orders (all ranks still end
/// with the same bits). With the option `deterministic` the result is the left fold in rank order. Then, and in scans,
/// which combine ranks in their order, but in whatever groups, the op need not commute.
///
/// All ranks compute in the same floating-point modes, whatever the modes of their threads: rounding to nearest, with
/// subnormal numbers, and without traps. Only an op of your own runs in the modes of its caller (see user_op()). A
/// thread's modes are the same after a call as before it; the flags of exceptions may be raised, on the thread that
/// drives.
class TUTTI_API Op {
 public:
  /// Sets `accumulated[i] = accumulated[i] op operand[i]` for 0 <= i < count. The two do not overlap, and are aligned
  /// for their type if the buffers of the call are. Several threads may run it at once: see user_op().
  using Function = detail::UserFunction::Function;

  constexpr explicit Op(OpKind kind) : kind_(kind) {}
  constexpr Op(OpKind kind, double factor) : kind_(kind), factor_(factor) {}
  Op(DataType type, Function function) : kind_(OpKind::user), type_(type), function_(std::move(function)) {}

  constexpr OpKind kind() const { return kind_; }
  /// The factor by which premul_sum multiplies each contribution.
  constexpr double factor() const { return factor_; }
  /// The element type that a user function was written for.
  constexpr DataType user_type() const { return type_; }
  const detail::UserFunction& function() const { return function_; }

 private:
  OpKind kind_;
  DataType type_ = DataType::u8;
  double factor_ = 1.0;
  detail::UserFunction function_;
};

/// "sum", "premul_sum" ...
TUTTI_API const char* name_of(OpKind kind);

// Constants: nothing is constructed before main() or destroyed after it.

/// For all Reducible types. A sum of bool is their or, a product their and.
inline constexpr Op sum{OpKind::sum};
inline constexpr Op product{OpKind::product};
/// For all but complex ones. A NaN among the elements makes the result NaN.
inline constexpr Op min{OpKind::min};
inline constexpr Op max{OpKind::max};
/// For integers and bool.
inline constexpr Op band{OpKind::band};
inline constexpr Op bor{OpKind::bor};
inline constexpr Op bxor{OpKind::bxor};
/// The sum of all ranks' elements divided by the number of ranks, n, for all types but bool. No intermediate sum
/// overflows unless the average does, on any transport.
///
///   - integers: the exact sum divided by n, rounded towards zero
///   - f16: summed in float, divided by n, and then rounded once
///   - the others: 2^-k x is summed for every x, where 2^k is the first power of two not below n, and the sum is
///     divided by n / 2^k. The scaling is exact, so only sum and quotient are rounded. Numbers below 2^k times the
///     smallest normal one may lose digits.
///
/// Sums of integers and f16 travel from rank to rank in a wider type: 4 bytes for elements of 1 or 2, else twice as
/// many. premul_sum(1.0 / n) sends f16 as it is.
inline constexpr Op avg{OpKind::avg};

/// The sum of `factor * x` over all ranks. Floating and complex types only.
constexpr Op premul_sum(double factor) { return Op{OpKind::premul_sum, factor}; }

/// An op of your own: `combine(a, b)` returns the combination of two elements.
///
///     auto hypot = tutti::user_op<float>([](float a, float b) { return std::hypot(a, b); });
///
/// It is called on the thread that drives the operation, but in the floating-point modes of the thread that made the
/// call, or started it if it was prepared. If the modes of ranks differ, so may their results. It must not throw, and
/// must not call tutti. Several threads may run it at once, in calls on different communicators, or of run_threads().
template <Reducible T, class Combine>
requires std::is_invocable_r_v<T, const Combine&, const T&, const T&> Op user_op(Combine combine) {
  return Op{data_type_of<T>, [combine = std::move(combine)](void* accumulated, const void* operand, std::size_t count) {
              auto* a = static_cast<T*>(accumulated);
              const auto* b = static_cast<const T*>(operand);
              for (std::size_t i = 0; i < count; ++i) a[i] = combine(a[i], b[i]);
            }};
}

}  // namespace TUTTI_ABI
}  // namespace tutti
