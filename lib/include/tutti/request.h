#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <ranges>
#include <span>
#include <string_view>
#include <type_traits>

#include "tutti/types.h"

namespace tutti {
namespace detail {

struct ConstBuffer {
  const void* data = nullptr;
  std::size_t count = 0;
  DataType type = DataType::u8;
};

struct Buffer {
  void* data = nullptr;
  std::size_t count = 0;
  DataType type = DataType::u8;
};

/// A call with its types erased: what every collective below becomes.
struct Request {
  Collective collective;
  ConstBuffer input;
  Buffer output;
  const Op* op = nullptr;  // reductions only
  int root = 0;
  std::span<const std::size_t> counts{};       // _v: elements per rank of the side that has many parts
  std::span<const std::size_t> recv_counts{};  // all_to_all_v: elements from each rank
  bool variable = false;                       // a _v call
  std::string_view algorithm{};
  std::chrono::milliseconds timeout{0};
  bool persistent = false;  // the same object is started again and again
};

template <Elements R>
ConstBuffer const_buffer(const R& range) {
  return {std::ranges::data(range), std::ranges::size(range), data_type_of<std::ranges::range_value_t<R>>};
}
template <class R>
Buffer buffer(R&& range) {
  return {std::ranges::data(range), std::ranges::size(range),
          data_type_of<std::ranges::range_value_t<std::remove_cvref_t<R>>>};
}
template <class A, class B>
concept SameElement = std::same_as<std::ranges::range_value_t<std::remove_cvref_t<A>>,
                                   std::ranges::range_value_t<std::remove_cvref_t<B>>>;

}  // namespace detail

}  // namespace tutti
