#pragma once

#include <time.h>

#include <chrono>

namespace tutti {

/// The time since some moment, the same for all threads.
inline std::chrono::nanoseconds elapsed_time() noexcept { return std::chrono::steady_clock::now().time_since_epoch(); }

/// The time that this thread has had of a processor, without the time for which others had it.
inline std::chrono::nanoseconds processor_time() noexcept {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds{time.tv_sec} + std::chrono::nanoseconds{time.tv_nsec};
}

}  // namespace tutti
