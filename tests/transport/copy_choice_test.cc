// When messages are read in the sender's memory.

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>

#include "tests/support/sizes.h"
#include "transport/memory/single_copy.h"

namespace tutti::transport::testing {
namespace {

using std::chrono::microseconds;

using tutti::testing::kibibyte;
using tutti::testing::mebibyte;

/// A sender that does what is wished, and messages that take so long each way.
struct Traffic {
  CopyChoice choice{SingleCopy::measured};
  std::size_t bytes = mebibyte;
  microseconds lent{100}, copied{100};

  bool lends() const { return CopyChoice::wants_single_copy(choice.wishes(), bytes); }
  /// How many of them are to be copied once.
  int come(int messages) {
    int count = 0;
    for (int i = 0; i < messages; ++i) {
      const bool is_lent = lends();
      count += is_lent ? 1 : 0;
      choice.took(bytes, is_lent, is_lent ? lent : copied);
    }
    return count;
  }
};

constexpr int turn = CopyChoice::tried_every;
constexpr CopyChoice::Trial usual = CopyChoice::trial_of(CopyChoice::class_of(mebibyte), false);

TEST_CASE("the first messages come through slots, then both ways are tried, and the quicker one is kept") {
  for (const bool lent_is_quicker : {true, false}) {
    Traffic traffic;
    (lent_is_quicker ? traffic.lent : traffic.copied) = microseconds{95};
    CHECK(traffic.come(usual.first) == 0);
    CHECK(traffic.come(usual.tries) == 0);
    CHECK(traffic.come(usual.tries) == usual.tries);
    const int others = turn - 2 * usual.tries;
    CHECK(traffic.come(others) == (lent_is_quicker ? others : 0));
    CHECK(traffic.come(usual.tries) == 0);  // the next turn
    CHECK(traffic.come(usual.tries) == usual.tries);
  }
}

TEST_CASE("single copies that become much slower than slots were are tried against them again, at once") {
  constexpr int slow = CopyChoice::most_slow;
  Traffic traffic;
  traffic.lent = microseconds{95};
  CHECK_FALSE(traffic.choice.is_watching(traffic.bytes));
  traffic.come(usual.first + 2 * usual.tries);
  CHECK(traffic.choice.is_watching(traffic.bytes));
  CHECK_FALSE(traffic.choice.is_watching(2 * traffic.bytes));
  for (int i = 0; i < 3; ++i) {  // not many enough in a row
    traffic.lent = microseconds{151};
    CHECK(traffic.come(slow - 1) == slow - 1);
    traffic.lent = microseconds{150};
    CHECK(traffic.come(1) == 1);
  }
  traffic.lent = microseconds{151};
  CHECK(traffic.come(slow) == slow);
  CHECK(traffic.come(usual.tries) == 0);  // the next trial
  CHECK(traffic.come(usual.hopeful) == usual.hopeful);
  CHECK(traffic.come(100) > 0);  // single copy was ahead, so all tries are made
  CHECK(traffic.come(100) == 0);
  CHECK_FALSE(traffic.choice.is_watching(traffic.bytes));
}

TEST_CASE("single copies where cores are shared are not watched") {
  Traffic sharing;
  sharing.choice = CopyChoice{SingleCopy::measured, true};
  sharing.lent = microseconds{50};
  sharing.come(usual.first + 2 * usual.tries);
  CHECK(sharing.lends());
  CHECK_FALSE(sharing.choice.is_watching(sharing.bytes));
  sharing.lent = microseconds{500};
  CHECK(sharing.come(100) == 100);
}

TEST_CASE("messages that their senders never lend are not timed for longer than others") {
  CopyChoice choice{SingleCopy::measured};
  int timed = 0;
  for (int i = 0; i < turn + usual.first; ++i) {
    timed += choice.is_trying(mebibyte, false) ? 1 : 0;
    choice.took(mebibyte, false, microseconds{10});
  }
  CHECK(timed == usual.tries);
  CHECK(choice.is_trying(mebibyte, true));
}

TEST_CASE("the choice for very long messages is made after a few") {
  Traffic traffic;
  traffic.bytes = 16 * mebibyte;
  traffic.lent = microseconds{50};
  CHECK(traffic.come(1) == 0);
  CHECK(traffic.come(3) == 0);
  CHECK(traffic.come(3) == 3);
  CHECK(traffic.come(100) == 100);
  Traffic sharing;  // where cores are shared, long begins earlier
  sharing.bytes = 2 * mebibyte;
  sharing.choice = CopyChoice{SingleCopy::measured, true};
  sharing.lent = microseconds{80};
  CHECK(sharing.come(1) == 0);
  CHECK(sharing.come(3) == 0);
  CHECK(sharing.come(3) == 3);
  CHECK(sharing.come(100) == 100);
}

TEST_CASE("the way that is ahead stays so until the other is clearly quicker") {
  Traffic traffic;
  traffic.come(usual.first);
  const auto is_lent_after = [&](int lent, int copied) {
    traffic.lent = microseconds{lent};
    traffic.copied = microseconds{copied};
    traffic.come(turn - 1);
    const bool is_lent = traffic.lends();
    traffic.come(1);
    return is_lent;
  };
  CHECK(is_lent_after(98, 100));
  CHECK(is_lent_after(102, 100));
  CHECK_FALSE(is_lent_after(110, 100));
  CHECK_FALSE(is_lent_after(98, 100));
  CHECK(is_lent_after(90, 100));
  CHECK(is_lent_after(102, 100));
  CHECK_FALSE(is_lent_after(110, 100));
}

TEST_CASE("where ends share cores with others, single copy must be clearly quicker") {
  for (const int copied : {80, 115, 116}) {
    Traffic traffic;
    traffic.choice = CopyChoice{SingleCopy::measured, true};
    traffic.copied = microseconds{copied};
    traffic.come(usual.first + 2 * usual.tries);
    CHECK(traffic.lends() == (copied == 116));  // by an eighth of that, with 1 us for a turn
  }
}

TEST_CASE("where ends share cores with others, a few single copies that are not clearly quicker end the trial") {
  for (const std::size_t bytes : {mebibyte, 2 * mebibyte}) {
    Traffic traffic;
    traffic.bytes = bytes;
    traffic.choice = CopyChoice{SingleCopy::measured, true};
    const CopyChoice::Trial trial = CopyChoice::trial_of(CopyChoice::class_of(bytes), true);
    traffic.copied = microseconds{60};
    CHECK(traffic.come(turn + trial.first) == trial.hopeful);
    traffic.lent = microseconds{55};  // quicker, but not clearly
    CHECK(traffic.come(turn) == trial.hopeful);
    traffic.lent = microseconds{40};
    CHECK(traffic.come(turn) == turn - trial.tries);
  }
}

TEST_CASE("a few single copies that are a tenth slower end the trial") {
  for (const std::size_t bytes : {mebibyte, 16 * mebibyte}) {
    Traffic traffic;
    traffic.bytes = bytes;
    const CopyChoice::Trial trial = CopyChoice::trial_of(CopyChoice::class_of(bytes), false);
    traffic.copied = microseconds{100};
    traffic.lent = microseconds{111};
    CHECK(traffic.come(turn + trial.first) == trial.hopeful);
    traffic.lent = microseconds{109};
    CHECK(traffic.come(turn) == trial.tries);
    traffic.lent = microseconds{90};
    CHECK(traffic.come(turn) == turn - trial.tries);
  }
}

TEST_CASE("a single copy that waited for something else does not end what is ahead") {
  Traffic traffic;
  traffic.bytes = 16 * mebibyte;
  const CopyChoice::Trial trial = CopyChoice::trial_of(CopyChoice::class_of(traffic.bytes), false);
  traffic.lent = microseconds{80};
  traffic.come(turn + trial.first);
  REQUIRE(traffic.lends() == false);  // the next turn begins with slots
  traffic.come(trial.tries);
  traffic.lent = microseconds{500};
  traffic.come(1);
  traffic.lent = microseconds{80};
  CHECK(traffic.come(turn - trial.tries - 1) == turn - trial.tries - 1);
}

TEST_CASE("a sender times its copies while slots are tried") {
  for (const bool shared : {false, true}) {
    Traffic traffic;
    traffic.choice = CopyChoice{SingleCopy::measured, shared};
    const auto is_timed = [&] { return CopyChoice::is_timed_by_sender(traffic.choice.wishes(), traffic.bytes); };
    CHECK_FALSE(is_timed());
    traffic.come(usual.first);
    CHECK(is_timed());
    traffic.come(usual.tries - 1);
    CHECK(is_timed());
    traffic.come(1);
    CHECK_FALSE(is_timed());
    traffic.come(turn - usual.tries);
    CHECK(is_timed());
    CHECK_FALSE(CopyChoice::is_timed_by_sender(traffic.choice.wishes(), 2 * traffic.bytes));
  }
  for (const SingleCopy mode : {SingleCopy::never, SingleCopy::always}) {
    Traffic traffic;
    traffic.choice = CopyChoice{mode, true};
    traffic.come(usual.first);
    CHECK_FALSE(CopyChoice::is_timed_by_sender(traffic.choice.wishes(), traffic.bytes));
  }
}

TEST_CASE("a message or two that waited for something else change nothing") {
  Traffic traffic;
  traffic.lent = microseconds{50};
  traffic.come(usual.first + 2 * usual.tries - usual.ignored);
  traffic.lent = microseconds{100'000};
  CHECK(traffic.come(usual.ignored) == usual.ignored);
  traffic.lent = microseconds{50};
  CHECK(traffic.come(10) == 10);
}

TEST_CASE("each size has a choice of its own") {
  Traffic traffic;
  traffic.lent = microseconds{50};
  traffic.come(100);
  for (const std::size_t bytes : {mebibyte, mebibyte + 1, 2 * mebibyte - 1}) {
    traffic.bytes = bytes;
    CHECK(traffic.lends());
  }
  for (const std::size_t bytes : {64 * kibibyte, mebibyte - 1, 2 * mebibyte, 64 * mebibyte}) {
    traffic.bytes = bytes;
    CHECK_FALSE(traffic.lends());
  }
  CHECK(CopyChoice::class_of(CopyChoice::least_bytes) == 0);
  CHECK(CopyChoice::class_of(~std::uint64_t{0}) == CopyChoice::classes - 1);
}

TEST_CASE("where messages are summed none is lent, and for some time after") {
  Traffic traffic;
  traffic.lent = microseconds{50};
  traffic.come(100);
  REQUIRE(traffic.lends());
  traffic.choice.summed(mebibyte);
  CHECK(traffic.come(CopyChoice::after_sum) == 0);
  CHECK(traffic.come(usual.tries) == 0);
  CHECK(traffic.come(usual.tries) == usual.tries);
}

TEST_CASE("it can be decided for good") {
  Traffic traffic;
  traffic.choice = CopyChoice{SingleCopy::always};
  CHECK(traffic.come(turn + 1) == turn + 1);
  CHECK_FALSE(traffic.choice.is_trying(mebibyte, false));
  traffic.choice.summed(mebibyte);
  CHECK(traffic.come(1) == 1);
  traffic.choice = CopyChoice{SingleCopy::never};
  CHECK_FALSE(traffic.choice.may_lend());
  CHECK(traffic.come(turn + 1) == 0);
}

}  // namespace
}  // namespace tutti::transport::testing
