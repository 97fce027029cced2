#pragma once

namespace tutti {

/// For loops that wait for another core: tells this one that it spins.
inline void pause_briefly() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// The same where the wait is probably over in less time than a pause takes (23 ns on a Zen 5): lets this core do
/// little more than look.
inline void pause_shortly() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_lfence();
#else
  pause_briefly();
#endif
}

}  // namespace tutti
