#pragma once

#include <limits>

namespace tutti::detail {

/// Finds the time of the host for times of a GPU's clock, in nanoseconds. Events tell only how far they are apart. But
/// the host knows a moment before which something was not in the stream yet, and one at which it had happened. So the
/// difference of the clocks lies between two bounds. Each call brings new ones, and as time goes by the old ones are
/// worth less, since the clocks do not run at equal rates. Threading: one thread.
class DeviceClock {
 public:
  /// Something that the GPU did, and what the host knows of it.
  struct Seen {
    double begin = 0;   ///< by the GPU's clock
    double end = 0;     ///< the same
    double before = 0;  ///< by the host's clock: it had not begun,
    double after = 0;   ///< and it had ended
  };
  /// More or less in the order of their ends.
  void learn(const Seen& seen);

  /// The host's time for one of the GPU's clock, close to what was learned last.
  double host_time(double device) const { return device + (low_ + high_) / 2; }
  /// Half of what lies between the bounds.
  double uncertainty() const { return (high_ - low_) / 2; }

 private:
  double at_ = 0;                                          // by the GPU's clock
  double low_ = -std::numeric_limits<double>::infinity();  // host - GPU
  double high_ = std::numeric_limits<double>::infinity();
};

}  // namespace tutti::detail
