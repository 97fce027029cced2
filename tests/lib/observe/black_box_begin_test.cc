#include "lib/observe/black_box_begin.h"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <bit>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <utility>

#include "tests/lib/observe/boxed.h"

namespace tutti::testing {
namespace {

using black_box::CallRecord;
using black_box::OperationRecord;
using black_box::State;

black_box::Form form_number(std::uint64_t n) {
  return {black_box::new_form_name(), black_box::words_of(call_number(n))};
}

TEST_CASE("every part of a call is read as it was written") {
  Boxed made;
  using Bytes = std::array<std::uint8_t, sizeof(CallRecord)>;
  Bytes bytes;
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{1});
  CallRecord call = std::bit_cast<CallRecord>(bytes);
  made.box->begin(call).progress(0, 0);
  const CallRecord read = made.read().entries.at(0).call;
  CHECK(read.realtime != call.realtime);
  call.realtime = read.realtime;
  call.algorithm.back() = '\0';  // the reader's
  CHECK(std::bit_cast<Bytes>(read) == std::bit_cast<Bytes>(call));
}

TEST_CASE("calls that are made again are read as if each had been written as a whole") {
  Boxed made;
  const std::array<black_box::Form, 2> forms{form_number(1), form_number(2)};
  std::mt19937 random{42};
  for (std::uint64_t n = 1; n <= 1000; ++n) {
    // Stretches of one form and of none, so that records have their form from the round before, or another one's.
    const auto which = static_cast<std::uint64_t>(random() % 8 == 0 ? 2 : n / 100 % 2);
    const auto now = static_cast<std::int64_t>(n);
    black_box::Flight flight =
        which == 2 ? made.box->begin(call_number(n)) : made.box->begin_again(forms[which], n, now);
    flight.progress(3, which == 2 ? 4096 : 0);
    if (random() % 4 != 0) flight.land_inline(9, 77, now + 1);
    if (n < 900 && n % 7 != 0) continue;
    const OperationRecord seen = made.read().entries.back();
    CallRecord expected = call_number(which == 2 ? n : which + 1);
    expected.operation = n;
    expected.started = now;
    expected.realtime = seen.call.realtime;
    CHECK(seen.number == n);
    CHECK(std::bit_cast<black_box::CallWords>(seen.call) == std::bit_cast<black_box::CallWords>(expected));
    CHECK(seen.bytes == (seen.state == State::done ? 77 : which == 2 ? 4096 : 0));
    CHECK(seen.parts_done == (seen.state == State::done ? 9 : 3));
    CHECK(seen.ended == (seen.state == State::done ? now + 1 : 0));
  }
}

TEST_CASE("a form without a name is written as a whole each time") {
  Boxed made;
  for (std::uint64_t n = 1; n <= 2 * black_box::record_count; ++n) {
    black_box::Form form = form_number(n);
    form.name = 0;
    made.box->begin_again(form, n, 1).land_inline(1, 0, 1);
    CHECK(made.read().entries.back().call.count == 3 * n);
  }
}

TEST_CASE("a record that said how an operation failed says nothing of that about the next one") {
  Boxed made;
  const black_box::Form form = form_number(1);
  const Error error{ErrorCode::peer_lost, "rank 3 is gone", 3, 5};
  for (std::uint64_t n = 1; n <= 3 * black_box::record_count; ++n) {
    const bool fails = n <= black_box::record_count;
    black_box::Flight flight = made.box->begin_again(form, n, 1);
    const OperationRecord begun = made.read().entries.back();
    CHECK(begun.state == State::started);
    CHECK(begun.ended == 0);
    CHECK(begun.failure.empty());
    fails ? flight.land(&error) : flight.land_inline(1, 0, 2);
    const OperationRecord ended = made.read().entries.back();
    CHECK(ended.state == (fails ? State::failed : State::done));
    CHECK(ended.failure == (fails ? error.what() : std::string{}));
  }
}

TEST_CASE("a reader never sees parts of two calls while the rank calls again and again") {
  Boxed made;
  const std::array<black_box::Form, 2> forms{form_number(1), form_number(2)};
  std::atomic<bool> stop{false};
  std::thread rank([&] {
    for (std::uint64_t n = 1; !stop.load(); ++n) {
      const black_box::Form& form = forms[n / (black_box::record_count + 7) % 2];
      black_box::Flight flight = n % 11 == 0 ? made.box->begin(call_number(n)) : made.box->begin_again(form, n, 1);
      flight.land_inline(static_cast<std::uint32_t>(n), n, static_cast<std::int64_t>(n));
    }
  });
  std::uint64_t last = 0;
  for (int round = 0; round < 300 || last < 4 * black_box::record_count; ++round) {
    for (const OperationRecord& entry : made.read().entries) {
      const std::uint64_t n = last = entry.number;
      const std::uint64_t like = n % 11 == 0 ? n : n / (black_box::record_count + 7) % 2 + 1;
      const bool whole = entry.call.operation == n && entry.call.group == 7 * like && entry.call.count == 3 * like;
      const bool ended = entry.state == State::started || std::cmp_equal(entry.ended, n);
      if (!whole || !ended) FAIL("call ", n, " was seen as ", entry.call.operation, " of group ", entry.call.group);
    }
  }
  stop = true;
  rank.join();
}

}  // namespace
}  // namespace tutti::testing
