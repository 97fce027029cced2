#pragma once

#include <algorithm>
#include <chrono>

namespace tutti_torch {

using Clock = std::chrono::steady_clock;

/// The time `limit` from now; now if it is negative, and at most in ten years, so that the sum does not overflow.
inline Clock::time_point deadline_after(std::chrono::milliseconds limit) {
  using std::chrono::milliseconds;
  constexpr std::chrono::hours longest{24 * 3650};
  return Clock::now() + std::clamp<milliseconds>(limit, milliseconds{0}, longest);
}

}  // namespace tutti_torch
