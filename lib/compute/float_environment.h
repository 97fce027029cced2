#pragma once

#if defined(__x86_64__)
#include <xmmintrin.h>
#elif !defined(__aarch64__)
#include <cfenv>
#endif

namespace tutti::compute {

/// How a thread rounds, how it handles subnormal numbers, and which exceptions end the process.
class FloatModes {
 public:
  /// The usual modes: to nearest, with subnormal numbers, without traps.
  FloatModes() = default;
  static FloatModes of_this_thread() noexcept {
    FloatModes modes;
#if defined(__x86_64__) || defined(__aarch64__)
    modes.word_ = read() & ~all_flags;
#else
    modes.own_ = std::fegetenv(&modes.environment_) == 0;
#endif
    return modes;
  }

 private:
  friend class FloatEnvironment;
#if defined(__x86_64__)
  using Word = unsigned;
  static constexpr Word usual = 0x1f80, all_flags = 0x3f;  // MXCSR
  static Word read() noexcept { return _mm_getcsr(); }
  static void write(Word word) noexcept { _mm_setcsr(word); }
#elif defined(__aarch64__)
  using Word = unsigned long;
  static constexpr Word usual = 0, all_flags = 0;  // FPCR; the flags are in another register
  static Word read() noexcept {
    Word word;
    asm volatile("mrs %0, fpcr" : "=r"(word)::"memory");
    return word;
  }
  static void write(Word word) noexcept { asm volatile("msr fpcr, %0" ::"r"(word) : "memory"); }
#endif

#if defined(__x86_64__) || defined(__aarch64__)
  Word word_ = usual;
#else
  std::fenv_t environment_{};
  bool own_ = false;  ///< not the usual ones
#endif
};

/// While it lives, this thread computes in the given modes. The destructor restores the previous ones.
///
/// Modes belong to threads, and a program may change them: a library built with -ffast-math makes every thread flush
/// subnormals to zero, fesetround() sets another direction, feenableexcept() lets an overflow end the process. Results
/// of the library's own ops must not depend on that, nor on the thread that drives a call, so they are computed in the
/// usual modes.
///
/// Flags of exceptions are raised as by the thread's own arithmetic. If the modes are right already, which is usual, it
/// costs one read of a register.
class FloatEnvironment {
 public:
  explicit FloatEnvironment(const FloatModes& modes = {}) noexcept {
#if defined(__x86_64__) || defined(__aarch64__)
    differs_ = (before_ & ~FloatModes::all_flags) != modes.word_;
    if (differs_) FloatModes::write(modes.word_ | (before_ & FloatModes::all_flags));
#else
    std::fegetenv(&before_);
    std::fesetenv(modes.own_ ? &modes.environment_ : FE_DFL_ENV);
#endif
  }
  ~FloatEnvironment() {
#if defined(__x86_64__) || defined(__aarch64__)
    if (differs_) FloatModes::write((before_ & ~FloatModes::all_flags) | (FloatModes::read() & FloatModes::all_flags));
#else
    std::fesetenv(&before_);
#endif
  }
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
#if defined(__x86_64__) || defined(__aarch64__)
  const FloatModes::Word before_ = FloatModes::read();
  bool differs_ = false;
#else
  std::fenv_t before_;
#endif
};

}  // namespace tutti::compute
