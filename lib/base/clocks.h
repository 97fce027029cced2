#pragma once

#include <time.h>

#include <algorithm>
#include <chrono>

namespace tutti {

/// The time `limit` from now; now if it is negative, and at most in ten years, so that the sum does not overflow.
template <class Rep, class Period>
std::chrono::steady_clock::time_point deadline_after(std::chrono::duration<Rep, Period> limit) {
  using Limit = std::chrono::duration<Rep, Period>;
  constexpr std::chrono::hours longest{24 * 3650};
  return std::chrono::steady_clock::now() +
         (limit > longest ? longest : std::chrono::nanoseconds{std::max(limit, Limit::zero())});
}

/// The time since some moment, the same for all threads.
inline std::chrono::nanoseconds elapsed_time() noexcept { return std::chrono::steady_clock::now().time_since_epoch(); }

/// The time that this thread has had of a processor, without the time for which others had it.
inline std::chrono::nanoseconds processor_time() noexcept {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds{time.tv_sec} + std::chrono::nanoseconds{time.tv_nsec};
}

}  // namespace tutti
