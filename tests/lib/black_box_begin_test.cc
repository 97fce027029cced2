#include "lib/base/black_box_begin.h"

#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <numeric>
#include <random>

#include "tests/lib/boxed.h"

namespace tutti::testing {
namespace {

using black_box::Call;
using black_box::Entry;
using black_box::State;

TEST_CASE("every part of a call is read as it was written") {
  Boxed made;
  using Bytes = std::array<std::uint8_t, sizeof(Call)>;
  Bytes bytes;
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{1});
  Call call = std::bit_cast<Call>(bytes);
  made.box->begin(call).progress(0, 0);
  const Call read = made.read().entries.at(0).call;
  CHECK(read.realtime != call.realtime);
  call.realtime = read.realtime;
  call.algorithm.back() = '\0';  // the reader's
  CHECK(std::bit_cast<Bytes>(read) == std::bit_cast<Bytes>(call));
}

TEST_CASE("calls that are made again are read as if each had been written as a whole") {
  Boxed made;
  const std::array<black_box::Form, 2> forms{black_box::form_of(call_number(1)), black_box::form_of(call_number(2))};
  std::mt19937 random{42};
  for (std::uint64_t n = 1; n <= 1000; ++n) {
    // Stretches of one form and of none, so that records have their form from the round before, or another one's.
    const auto which = static_cast<std::uint64_t>(random() % 8 == 0 ? 2 : n / 100 % 2);
    const auto now = static_cast<std::int64_t>(n);
    black_box::Flight flight =
        which == 2 ? made.box->begin(call_number(n)) : made.box->begin_again(forms[which], n, now);
    flight.progress(3, which == 2 ? 4096 : 0);
    if (random() % 4 != 0) flight.land_at_once(9, now + 1);
    if (n < 900 && n % 7 != 0) continue;
    const Entry seen = made.read().entries.back();
    Call expected = call_number(which == 2 ? n : which + 1);
    expected.operation = n;
    expected.started = now;
    expected.realtime = seen.call.realtime;
    CHECK(seen.number == n);
    CHECK(std::bit_cast<black_box::CallWords>(seen.call) == std::bit_cast<black_box::CallWords>(expected));
    CHECK(seen.bytes == (which == 2 ? 4096 : 0));
    CHECK(seen.steps_done == (seen.state == State::done ? 9 : 3));
    CHECK(seen.ended == (seen.state == State::done ? now + 1 : 0));
  }
}

}  // namespace
}  // namespace tutti::testing
