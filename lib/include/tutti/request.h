#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <limits>
#include <ranges>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tutti/types.h"

/// Internal types of the templates of calls; not for programs.
namespace tutti::detail {
inline namespace TUTTI_ABI {

struct ConstBuffer {
  const void* data = nullptr;
  std::size_t count = 0;  ///< of elements of `type`
  DataType type = DataType::u8;
  std::size_t unit = 1;  ///< how many of them are one element of the caller's
};

/// The queue of a GPU into which a call on device memory puts its work.
struct OnStream {
  void* stream = nullptr;  ///< a CUstream; null: the legacy default stream
};

struct Buffer {
  void* data = nullptr;
  std::size_t count = 0;
  DataType type = DataType::u8;
  std::size_t unit = 1;
};

/// A collective call with its types erased.
struct Request {
  Collective collective;
  ConstBuffer input;
  Buffer output;
  const Op* op = nullptr;  // reductions only
  int root = 0;
  std::span<const std::size_t> counts{};              // _v: elements per rank of the buffer that has many parts
  std::span<const std::size_t> recv_counts{};         // all_to_all_v: elements from each rank
  bool variable = false;                              // a _v call
  std::span<const std::size_t> displacements{};       // _v: where parts begin, if not one after the other
  std::span<const std::size_t> recv_displacements{};  // all_to_all_v: the same of the output
  std::string_view algorithm{};
  std::chrono::milliseconds timeout{0};
  bool persistent = false;  // the same object is started repeatedly
};

/// A range in the memory of a GPU, which says so of itself: gpu::Span.
template <class R>
concept InDeviceMemory = requires {
  requires std::remove_cvref_t<R>::is_in_device_memory;
};

enum class Memory : bool { host, device };
template <class R>
inline constexpr Memory memory_of = InDeviceMemory<R> ? Memory::device : Memory::host;

/// How long a buffer is used: only during the call, or beyond its return.
enum class Lifetime : bool { call, beyond };
enum class Access : bool { read, write };

template <class R>
inline constexpr bool is_bits = std::same_as<std::remove_cvref_t<R>, std::vector<bool>>;
template <class R>
inline constexpr bool lies_in_memory = std::ranges::contiguous_range<R>&& std::ranges::sized_range<R>;

/// Whether a range may be a buffer; where not, the compiler prints why. R is `T&` for a variable, `T` for a temporary.
template <class R, Access access, Lifetime lifetime>
requires(!InDeviceMemory<R>) consteval bool is_buffer() {
  static_assert(!is_bits<R>,
                "std::vector<bool> has bits, not elements that lie in memory: use a std::vector<char> or an array of "
                "bool");
  if constexpr (is_bits<R>) return false;
  static_assert(is_bits<R> || lies_in_memory<R>,
                "a buffer is a range of elements that lie one after the other in memory: std::vector, std::array, "
                "std::span, a C array; for a single variable, std::span{&variable, 1}");
  if constexpr (lies_in_memory<R>) {
    static_assert(Element<std::ranges::range_value_t<R>>,
                  "elements are trivially copyable and no pointers: other types own or name memory that stays behind");
    static_assert(access == Access::read || MutableElements<R> || !Element<std::ranges::range_value_t<R>>,
                  "the call writes to this buffer, which is const");
    static_assert(lifetime == Lifetime::call || std::ranges::borrowed_range<R>,
                  "this buffer is a temporary that ends with the statement, and the call goes on after it: give a "
                  "variable, or a std::span of one");
  }
  return access == Access::read ? Elements<R> : MutableElements<R>;
}

/// A gpu::Span names memory, so a temporary one is as good.
template <InDeviceMemory R, Access access, Lifetime>
consteval bool is_buffer() {
  constexpr bool is_const = std::is_const_v<typename std::remove_cvref_t<R>::element_type>;
  static_assert(access == Access::read || !is_const, "the call writes to this buffer, which is const");
  return access == Access::read || !is_const;
}

template <class R>
struct ElementOfRange {
  using Type = std::remove_cv_t<std::ranges::range_value_t<R>>;
};
template <InDeviceMemory R>
struct ElementOfRange<R> {
  using Type = typename std::remove_cvref_t<R>::value_type;
};
template <class R>
using ElementOf = typename ElementOfRange<R>::Type;

/// Whether these may be input and output of a call; where not, the compiler prints why.
template <class In, class Out, Lifetime lifetime>
consteval bool are_buffers() {
  static_assert(InDeviceMemory<In> == InDeviceMemory<Out>,
                "one buffer is in device memory and the other is not: both are a gpu::Span, or none");
  if constexpr (is_buffer<In, Access::read, lifetime>() && is_buffer<Out, Access::write, lifetime>()) {
    static_assert(std::same_as<ElementOf<In>, ElementOf<Out>>, "both buffers have elements of the same type");
    return true;
  }
  return false;
}

/// The same for reductions.
template <class R>
consteval bool is_reducible() {
  static_assert(Reducible<ElementOf<R>>,
                "reductions combine integers of up to 64 bits, bool, std::byte, tutti::f16, tutti::bf16, float, double "
                "and std::complex of the last two; other types can be moved, not combined");
  return Reducible<ElementOf<R>>;
}

template <class T>
inline constexpr std::size_t unit_of = Reducible<T> ? 1 : sizeof(T);

/// The product, or where that is too large the largest number, which calls refuse as a count.
constexpr std::size_t times(std::size_t count, std::size_t factor) {
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  return count > most / factor ? most : count * factor;
}

template <InDeviceMemory R>
ConstBuffer const_buffer(const R& range) {
  using T = ElementOf<R>;
  return {range.data(), times(range.size(), unit_of<T>), data_type_of<T>, unit_of<T>};
}
template <InDeviceMemory R>
Buffer buffer(R& range) {
  using T = ElementOf<R>;
  return {range.data(), times(range.size(), unit_of<T>), data_type_of<T>, unit_of<T>};
}
template <class R>
ConstBuffer const_buffer(const R& range) {
  using T = ElementOf<const R&>;
  return {std::ranges::data(range), times(std::ranges::size(range), unit_of<T>), data_type_of<T>, unit_of<T>};
}
template <class R>
Buffer buffer(R& range) {
  using T = ElementOf<R&>;
  return {std::ranges::data(range), times(std::ranges::size(range), unit_of<T>), data_type_of<T>, unit_of<T>};
}

}  // namespace TUTTI_ABI
}  // namespace tutti::detail
