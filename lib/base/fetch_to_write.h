#pragma once

#include <cstddef>

#include "lib/base/memory_units.h"

namespace tutti {

/// Asks for the cache line at `address`, which this thread is about to write. Other cores that have it give it up now,
/// rather than while the stores wait for it.
inline void fetch_to_write(const void* address) noexcept {
#if defined(__x86_64__)
  // Compilers emit this for __builtin_prefetch() only if they may assume a processor that has it. Others ignore it.
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(address)));
#else
  __builtin_prefetch(address, 1);
#endif
}

/// The same for the lines of `bytes` from there. `begin` is the beginning of a line.
inline void fetch_to_write(const void* begin, std::size_t bytes) noexcept {
  for (std::size_t at = 0; at < bytes; at += cache_line) fetch_to_write(static_cast<const std::byte*>(begin) + at);
}

}  // namespace tutti
