#pragma once

#include <time.h>

#include <cstdint>

// The clock of a trace: the processor's own counter, which takes half the time of clock_gettime(), where all cores of
// the host have it in common and it runs evenly; else CLOCK_MONOTONIC. Threading: any.

namespace tutti::trace {

/// Nanoseconds of CLOCK_MONOTONIC.
inline std::int64_t monotonic() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
}

#if defined(__x86_64__)
/// As the kernel found out: it uses the counter itself.
extern const bool counts;

/// Before something is done that others will see.
inline std::int64_t ticks() noexcept {
  return counts ? static_cast<std::int64_t>(__builtin_ia32_rdtsc()) : monotonic();
}
/// After something was seen that others did: not read before that has really been loaded.
inline std::int64_t ticks_after() noexcept {
  if (!counts) return monotonic();
  __builtin_ia32_lfence();
  return static_cast<std::int64_t>(__builtin_ia32_rdtsc());
}
#else
inline constexpr bool counts = false;
inline std::int64_t ticks() noexcept { return monotonic(); }
inline std::int64_t ticks_after() noexcept { return monotonic(); }
#endif

/// One moment on both clocks.
struct Moment {
  std::int64_t ticks = 0;
  std::int64_t nanoseconds = 0;  ///< of CLOCK_MONOTONIC
};
/// Now; the best of several looks, since a process may lose its core between two clocks.
Moment moment() noexcept;

}  // namespace tutti::trace
