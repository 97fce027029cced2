#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

/// What collectives and messages check of the caller's buffers.
namespace tutti::detail {

/// A buffer with more elements than this does not exist, since the addresses of a program have at most 56 bits. What is
/// computed from such a count does not overflow: elements have up to 16 bytes, and sums may need twice as many.
inline constexpr std::size_t largest_count = (std::size_t{1} << 56) - 1;

/// Why a count or displacement is refused, `number` of the caller's elements.
std::string impossible(const char* name, std::size_t number);
/// Why a buffer of more than largest_count elements is refused, `unit` of which are one element of the caller's.
std::string impossible(std::size_t count, std::size_t unit);

/// Whether two buffers have bytes in common; an empty one has none.
inline bool overlap(const void* one, std::size_t bytes, const void* other, std::size_t other_bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(one);
  const auto other_begin = reinterpret_cast<std::uintptr_t>(other);
  return bytes > 0 && other_bytes > 0 && begin < other_begin + other_bytes && other_begin < begin + bytes;
}

}  // namespace tutti::detail
