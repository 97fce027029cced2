#include "lib/base/clocks.h"

#include <doctest/doctest.h>

#include <chrono>

namespace tutti {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

TEST_CASE("a deadline is never past, however long or negative the limit") {
  const auto before = steady_clock::now();
  const auto is_far = [&](auto deadline) { return deadline > before + 24h * 365; };
  CHECK(is_far(deadline_after(std::chrono::nanoseconds::max())));
  CHECK(is_far(deadline_after(std::chrono::milliseconds::max())));
  CHECK(is_far(deadline_after(std::chrono::hours::max())));
  CHECK(deadline_after(std::chrono::nanoseconds::min()) >= before);
  const auto now = deadline_after(-1s);
  CHECK(now <= steady_clock::now());
  const auto in_a_second = deadline_after(1s);
  CHECK((in_a_second >= before + 1s && in_a_second <= steady_clock::now() + 1s));
}

}  // namespace tutti
