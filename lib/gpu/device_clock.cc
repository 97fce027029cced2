#include "lib/gpu/device_clock.h"

#include <algorithm>
#include <cmath>

namespace tutti::detail {
namespace {

/// Two quartz clocks of 50 parts in a million each.
constexpr double drift = 1e-4;
/// A difference between two events is wrong by less.
constexpr double resolution = 1000;

}  // namespace

void DeviceClock::learn(const Seen& seen) {
  const double doubt = resolution + drift * std::abs(seen.end - at_);
  const double own_doubt = resolution + drift * (seen.end - seen.begin);
  const double own_low = seen.before - seen.begin - own_doubt;
  const double own_high = seen.after - seen.end + resolution;
  low_ = std::max(low_ - doubt, own_low);
  high_ = std::min(high_ + doubt, own_high);
  if (low_ > high_) {  // a clock was set, or runs worse than any should
    low_ = own_low;
    high_ = own_high;
  }
  at_ = seen.end;
}

}  // namespace tutti::detail
