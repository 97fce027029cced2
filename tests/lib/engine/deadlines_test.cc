#include "lib/engine/deadlines.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <vector>

namespace tutti::detail {
namespace {

class Idle final : public Pending {
 public:
  Idle() : Pending(nullptr) {}
  void start() noexcept override {}
  void expire() noexcept override {}
  void departed(std::span<const int> /*ranks*/) noexcept override {}
  void abort(std::string_view /*reason*/) noexcept override {}

 private:
  void recycle() noexcept override {}
};

TEST_CASE("the earliest deadline is known, whichever are put off or over") {
  for (unsigned seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    std::mt19937 random{seed};
    Deadlines deadlines;
    std::vector<std::unique_ptr<Idle>> idle;
    std::map<Pending*, Clock::time_point> expected;
    for (int i = 0; i < 300; ++i) idle.push_back(std::make_unique<Idle>());
    for (int round = 0; round < 5000; ++round) {
      Pending& pending = *idle[random() % idle.size()];
      if (!expected.contains(&pending)) {
        deadlines.add(pending);
        expected[&pending] = Deadlines::never;
      } else if (random() % 3 == 0) {
        deadlines.remove(pending);
        expected.erase(&pending);
      } else {
        expected[&pending] = Clock::time_point{std::chrono::nanoseconds{random() % 1000}};
        deadlines.set(pending, expected[&pending]);
      }
      const auto earliest = std::ranges::min_element(expected, {}, [](const auto& entry) { return entry.second; });
      REQUIRE(deadlines.empty() == expected.empty());
      REQUIRE(deadlines.first() == (expected.empty() ? Deadlines::never : earliest->second));
      if (!expected.empty()) REQUIRE(expected.at(&deadlines.front()) == deadlines.first());
    }
  }
}

}  // namespace
}  // namespace tutti::detail
