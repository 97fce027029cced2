#include "lib/base/answer_deadline.h"

#include <doctest/doctest.h>

namespace tutti::detail {
namespace {

using namespace std::chrono_literals;

const auto asked_at = AnswerDeadline::Clock::now();

TEST_CASE("who looks in time, or a little late, finds that the others' time is over") {
  AnswerDeadline deadline{300ms, asked_at};
  CHECK(deadline.end() == asked_at + 300ms);
  CHECK(!deadline.is_over(asked_at + 299ms));
  CHECK(deadline.is_over(asked_at + 399ms));
}

TEST_CASE("who looks long after gives the others the same time again, and only once") {
  AnswerDeadline deadline{300ms, asked_at};
  CHECK(!deadline.is_over(asked_at + 2s));
  CHECK(deadline.end() == asked_at + 2300ms);
  CHECK(!deadline.is_over(asked_at + 2299ms));
  CHECK(deadline.is_over(asked_at + 1h));
}

}  // namespace
}  // namespace tutti::detail
