// Tests of very many cases try a part of them where TEST_SAMPLE is a number, which chooses the part. CONTRIBUTING.md
// says who sets it.
#pragma once

#include <cstdlib>
#include <optional>
#include <random>
#include <string>

namespace tutti::testing {

/// Sanitizers slow everything down by ten or more.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool sanitized = true;
#elif defined(__has_feature)
inline constexpr bool sanitized = __has_feature(thread_sanitizer) || __has_feature(address_sanitizer);
#else
inline constexpr bool sanitized = false;
#endif

/// The number in TEST_SAMPLE; none where everything is tried, as for "all". Without the variable only a sanitizer's
/// build takes a part, the first.
inline std::optional<unsigned> sample_number() {
  const char* set = std::getenv("TEST_SAMPLE");
  const std::string said = set ? set : sanitized ? "1" : "all";
  if (said == "all") return std::nullopt;
  return static_cast<unsigned>(std::stoul(said));
}

inline bool only_a_sample() { return sample_number().has_value(); }
/// For what takes a moment where no sanitizer watches.
inline bool only_a_sanitized_sample() { return sanitized && only_a_sample(); }

/// Seeds what a test draws at random: always alike where everything is tried, or by the number.
inline unsigned sample_seed(unsigned usual) { return usual + sample_number().value_or(0); }

/// Draws the cases to try: one of each `plain` that come one after another, or of each `watched` in a sanitizer's
/// build; or all of them. Lots draw alike, so that each rank may have its own.
class Lot {
 public:
  Lot(unsigned plain, unsigned watched)
      : one_in_(!only_a_sample() ? 1
                : sanitized      ? watched
                                 : plain),
        random_(sample_seed(0)) {}

  bool draws() {
    if (asked_ % one_in_ == 0) drawn_ = static_cast<unsigned>(random_() % one_in_);
    return asked_++ % one_in_ == drawn_;
  }

 private:
  unsigned one_in_;
  unsigned asked_ = 0;
  unsigned drawn_ = 0;
  std::mt19937 random_;
};

}  // namespace tutti::testing
