#include "lib/gpu/device_clock.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

namespace tutti::detail {
namespace {

constexpr double us = 1e3, ms = 1e6, second = 1e9;

/// A GPU whose clock runs faster than the host's by a part, and the host's time at its zero.
struct Clocks {
  double rate = 1;
  double zero = 7e14;
  double host(double device) const { return zero + device / rate; }
};

TEST_CASE("the clock of a GPU: the host's time lies within what is said to be uncertain") {
  for (const double rate : {1.0, 1 + 9e-5, 1 - 9e-5}) {
    CAPTURE(rate);
    const Clocks clocks{rate};
    std::mt19937 random{1};
    const auto up_to = [&](double most) { return std::uniform_real_distribution{0.0, most}(random); };
    DeviceClock clock;
    double now = 0;
    double worst = 0;
    for (int call = 0; call < 2000; ++call) {
      now += call % 50 == 0 ? up_to(10 * second) : up_to(ms);
      const double begin = now, end = now += up_to(200 * us);
      // Some calls are behind others in their stream, and some hosts look late.
      const double waits = call % 3 == 0 ? up_to(5 * ms) : up_to(10 * us);
      const double late = call % 7 == 0 ? up_to(ms) : up_to(20 * us);
      clock.learn({begin, end, clocks.host(begin) - waits, clocks.host(end) + late});
      for (const double moment : {begin, end}) {
        const double error = std::abs(clock.host_time(moment) - clocks.host(moment));
        REQUIRE(error <= clock.uncertainty() + 1 * us);
        worst = std::max(worst, error);
      }
    }
    CHECK(worst < 1.5 * ms);
    CHECK(clock.uncertainty() < 50 * us);
  }
}

TEST_CASE("the clock of a GPU: a comparison on an idle stream is exact for calls soon after it") {
  const Clocks clocks;
  DeviceClock clock;
  for (const double width : {40 * us, 6 * us, 90 * us})
    clock.learn({0, 0, clocks.host(0) - width / 3, clocks.host(0) + width});
  CHECK(clock.uncertainty() < 7 * us);
  // Nothing is known of this call but that it was enqueued before and noticed after.
  clock.learn({ms, 2 * ms, clocks.host(ms) - 50 * ms, clocks.host(2 * ms) + 50 * ms});
  CHECK(clock.uncertainty() < 9 * us);
  CHECK(std::abs(clock.host_time(ms) - clocks.host(ms)) < 9 * us);
}

TEST_CASE("the clock of a GPU: after a jump the call's own bounds count") {
  DeviceClock clock;
  clock.learn({0, 0, 100 * us, 110 * us});
  clock.learn({ms, ms, 5 * second, 5 * second + 20 * us});
  CHECK(clock.host_time(ms) > 5 * second - 2 * us);
  CHECK(clock.host_time(ms) < 5 * second + 22 * us);
}

}  // namespace
}  // namespace tutti::detail
