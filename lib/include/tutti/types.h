#pragma once

#include <bit>
#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <ranges>
#include <string>
#include <type_traits>

#include "tutti/export.h"

namespace tutti {

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
};
inline constexpr int collective_count = 9;
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

namespace detail {

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

}  // namespace detail

/// A type whose arrays tutti can move and reduce: the integers up to 64 bits, bool, f16, bf16, float, double,
/// std::complex of the last two, and std::byte (as u8).
template <class T>
concept Element = detail::data_type_index<std::remove_cv_t<T>>()
>= 0;

template <Element T>
inline constexpr DataType data_type_of = static_cast<DataType>(detail::data_type_index<std::remove_cv_t<T>>());

/// Contiguous elements: std::vector, std::array, std::span, a C array ...
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
/// Every op is taken to be associative and commutative: algorithms combine ranks in different orders
/// (all ranks still end with the same bits). With the option `deterministic` the result is the left fold
/// in rank order, so that an associative op that does not commute is allowed there.
class TUTTI_API Op {
 public:
  /// Sets `accumulated[i] = accumulated[i] op operand[i]` for 0 <= i < count.
  using Function = std::function<void(void* accumulated, const void* operand, std::size_t count)>;

  constexpr explicit Op(OpKind kind) : kind_(kind) {}
  Op(OpKind kind, double factor) : kind_(kind), factor_(factor) {}
  Op(DataType type, Function function)
      : kind_(OpKind::user), type_(type), function_(std::make_shared<const Function>(std::move(function))) {}

  OpKind kind() const { return kind_; }
  /// What premul_sum multiplies each contribution with.
  double factor() const { return factor_; }
  /// The element type that a user function was written for.
  DataType user_type() const { return type_; }
  const std::shared_ptr<const Function>& function() const { return function_; }

 private:
  OpKind kind_;
  DataType type_ = DataType::u8;
  double factor_ = 1.0;
  std::shared_ptr<const Function> function_;
};

/// "sum", "premul_sum" ...
TUTTI_API const char* name_of(OpKind kind);

inline const Op sum{OpKind::sum};
inline const Op product{OpKind::product};
inline const Op min{OpKind::min};
inline const Op max{OpKind::max};
inline const Op band{OpKind::band};
inline const Op bor{OpKind::bor};
inline const Op bxor{OpKind::bxor};
/// The sum divided by the number of ranks; integers round towards zero.
inline const Op avg{OpKind::avg};

/// The sum of `factor * x` over all ranks. Floating and complex types only.
inline Op premul_sum(double factor) { return Op{OpKind::premul_sum, factor}; }

/// An op of your own: `combine(a, b)` returns what two elements become.
///
///     auto hypot = tutti::user_op<float>([](float a, float b) { return std::hypot(a, b); });
///
/// It is called on the thread that drives the operation, must not throw, and must not call tutti.
template <Element T, class Combine>
requires std::is_invocable_r_v<T, const Combine&, const T&, const T&> Op user_op(Combine combine) {
  return Op{data_type_of<T>, [combine = std::move(combine)](void* accumulated, const void* operand, std::size_t count) {
              auto* a = static_cast<T*>(accumulated);
              const auto* b = static_cast<const T*>(operand);
              for (std::size_t i = 0; i < count; ++i) a[i] = combine(a[i], b[i]);
            }};
}

}  // namespace tutti
