#include "lib/base/answer_deadline.h"

#include <doctest/doctest.h>

namespace tutti::detail {
namespace {

using namespace std::chrono_literals;

const auto begun = AnswerDeadline::Clock::now();

TEST_CASE("who looks in time, or a little late, finds that the others' time is over") {
  AnswerDeadline deadline{300ms, begun};
  CHECK(deadline.end() == begun + 300ms);
  CHECK(!deadline.is_over(begun + 299ms));
  CHECK(deadline.is_over(begun + 399ms));
}

TEST_CASE("who looks long after gives the others the same time again, and only once") {
  AnswerDeadline deadline{300ms, begun};
  CHECK(!deadline.is_over(begun + 2s));
  CHECK(deadline.end() == begun + 2300ms);
  CHECK(!deadline.is_over(begun + 2299ms));
  CHECK(deadline.is_over(begun + 1h));
}

}  // namespace
}  // namespace tutti::detail
