#pragma once

namespace tutti::cli::measure {

/// For the body of a loop that waits for another core.
inline void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace tutti::cli::measure
