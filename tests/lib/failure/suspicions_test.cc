#include "lib/failure/suspicions.h"

#include <doctest/doctest.h>

#include <chrono>
#include <vector>

namespace tutti::detail {
namespace {

using namespace std::chrono_literals;

TEST_CASE("a suspicion waits for the coordinator's answer, and is taken once") {
  Suspicions suspicions;
  CHECK(suspicions.next() == Suspicions::Clock::time_point::max());
  const auto before = Suspicions::Clock::now();
  suspicions.add({{.culprit = 1, .text = "first"}});
  suspicions.add({{.culprit = 2, .text = "second"}});
  const auto next = suspicions.next();
  CHECK(next >= before + 400ms);
  CHECK(suspicions.take_overdue(next - 1ns).empty());
  CHECK(suspicions.next() == next);
  const std::vector<Failure> overdue = suspicions.take_overdue(next + 1ms);
  REQUIRE(overdue.size() == 2);
  CHECK(overdue[0].culprit == 1);
  CHECK(overdue[1].culprit == 2);
  CHECK(suspicions.take_overdue(next + 2h).empty());
  CHECK(suspicions.next() == Suspicions::Clock::time_point::max());
}

TEST_CASE("a suspicion that this process finds long overdue waits once more, since it may not have read the answer") {
  Suspicions suspicions;
  suspicions.add({{.culprit = 1, .text = "one"}});
  const auto late = suspicions.next() + 1h;
  CHECK(suspicions.take_overdue(late).empty());
  CHECK(suspicions.next() == late + 400ms);
  CHECK(suspicions.take_overdue(late + 2h).size() == 1);
}

TEST_CASE("all suspicions are taken for the next coordinator, however long they have waited") {
  Suspicions suspicions;
  suspicions.add({{.culprit = 1, .text = "one"}});
  suspicions.add({{.culprit = 2, .text = "other"}, {.operation = 5, .call = {}, .members = {}}});
  const auto all = suspicions.take_all();
  REQUIRE(all.size() == 2);
  CHECK(all[1].failure.culprit == 2);
  CHECK(all[1].calls.operation == 5);
  CHECK(suspicions.take_all().empty());
}

}  // namespace
}  // namespace tutti::detail
