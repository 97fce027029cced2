// What processors and kernels cut memory into.

#pragma once

#include <cstddef>

namespace tutti {

inline constexpr std::size_t cache_line = 64;
inline constexpr std::size_t page_bytes = 4096;

/// `bytes`, up to the end of the last page.
constexpr std::size_t whole_pages(std::size_t bytes) noexcept {
  return (bytes + page_bytes - 1) / page_bytes * page_bytes;
}

}  // namespace tutti
