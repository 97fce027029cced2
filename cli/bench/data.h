#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "tutti/types.h"

// The contents of the buffers before and after a call.
//
// The value at a place depends on the rank, on the place modulo a prime and on the repetition. All values are small
// integers, chosen so that every partial result of the operation is exact in the type, in whatever order it is formed,
// so results can be compared bit for bit. Only sums over more ranks than the type has room for (bf16: 128) are compared
// with a tolerance.

namespace tutti::cli::bench {

using Bytes = std::vector<std::byte>;

/// One period of a buffer: element i of the buffer is element i modulo the period.
struct Pattern {
  DataType type = DataType::f32;
  Bytes bytes;
  double tolerance = 0;  ///< absolute; 0: bit for bit
};
inline constexpr std::size_t period = 4093;

/// The operation that the values are for; `none` for collectives that only move data.
struct Reduction {
  bool none = true;
  OpKind op = OpKind::sum;
  double factor = 1;  ///< premul_sum
};

/// The input of rank `rank` of `ranks`.
Pattern input_pattern(DataType type, const Reduction& reduction, int rank, int ranks, int repetition);
/// The reduction of the inputs of the first `folded` of them.
Pattern result_pattern(DataType type, const Reduction& reduction, int folded, int ranks, int repetition);

/// Fills with the pattern, beginning at its element `first`.
void fill(std::span<std::byte> buffer, const Pattern& pattern, std::size_t first);
/// Elements that differ from the pattern.
std::size_t count_wrong(std::span<const std::byte> buffer, const Pattern& pattern, std::size_t first);
/// Fills with bytes that no pattern has, so that elements that were not written are found.
void poison(std::span<std::byte> buffer);

/// Calls `work(T{})` with the C++ type for `type`.
template <class Work>
void with_type(DataType type, Work work) {
  switch (type) {
    case DataType::i8:
      return work(std::int8_t{});
    case DataType::u8:
      return work(std::uint8_t{});
    case DataType::i16:
      return work(std::int16_t{});
    case DataType::u16:
      return work(std::uint16_t{});
    case DataType::i32:
      return work(std::int32_t{});
    case DataType::u32:
      return work(std::uint32_t{});
    case DataType::i64:
      return work(std::int64_t{});
    case DataType::u64:
      return work(std::uint64_t{});
    case DataType::boolean:
      return work(bool{});
    case DataType::f16:
      return work(f16{});
    case DataType::bf16:
      return work(bf16{});
    case DataType::f32:
      return work(float{});
    case DataType::f64:
      return work(double{});
    case DataType::c64:
      return work(std::complex<float>{});
    case DataType::c128:
      return work(std::complex<double>{});
  }
}

}  // namespace tutti::cli::bench
