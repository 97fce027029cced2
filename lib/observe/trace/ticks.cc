#include "lib/observe/trace/ticks.h"

#include <fstream>
#include <limits>
#include <string>

namespace tutti::trace {

#if defined(__x86_64__)
namespace {

bool kernel_counts() {
  std::ifstream file{"/sys/devices/system/clocksource/clocksource0/current_clocksource"};
  std::string source;
  return std::getline(file, source) && source == "tsc";
}

}  // namespace

const bool counts = kernel_counts();
#endif

Moment moment() noexcept {
  Moment best;
  std::int64_t shortest = std::numeric_limits<std::int64_t>::max();
  for (int look = 0; look < 20; ++look) {
    const std::int64_t before = ticks_after();
    const std::int64_t now = monotonic();
    const std::int64_t after = ticks_after();
    if (after - before >= shortest) continue;
    shortest = after - before;
    best = {before + (after - before) / 2, now};
  }
  return best;
}

}  // namespace tutti::trace
