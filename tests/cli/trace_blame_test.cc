#include <doctest/doctest.h>

#include <map>
#include <utility>
#include <vector>

#include "cli/trace/blame.h"

namespace tutti::cli {
namespace {

constexpr std::int64_t ms = 1'000'000;

/// A message that its receiver expects from the begin of the call on, and has as soon as it is given.
TracedMessage message(int from, int to, std::int64_t expected, std::int64_t given) {
  return {.from = from,
          .to = to,
          .bytes = 8,
          .given = given,
          .sent = given,
          .expected = expected,
          .arrived = given,
          .received = given};
}

TracedCall call_of(const char* name, std::map<int, Span> ranks, const TracedMessage& message) {
  TracedCall call;
  call.name = name;
  call.ranks = std::move(ranks);
  call.messages = {message};
  return call;
}

TEST_CASE("a rank that an earlier call held up is not to blame, and one that comes late from elsewhere is") {
  // Rank 2 works for 100 ms before it sends to rank 0, which so is late for the barrier in which rank 1 waits.
  const TracedCall held_up =
      call_of("all_reduce #1", {{0, {0, 100 * ms}}, {1, {0, ms}}, {2, {0, 100 * ms}}}, message(2, 0, 0, 100 * ms));
  for (const std::int64_t elsewhere : {0 * ms, 30 * ms}) {
    CAPTURE(elsewhere);
    const std::int64_t came = 100 * ms + elsewhere;
    const TracedCall barrier =
        call_of("barrier #2", {{0, {came, came + ms}}, {1, {ms, came + ms}}}, message(0, 1, ms, came));
    const Verdicts verdicts = judge({held_up, barrier});
    CHECK(verdicts.ranks.at(2).slow.time == 100 * ms);
    CHECK(verdicts.ranks.at(0).late.time == elsewhere);
  }
}

TEST_CASE("a rank that is slow at the end of a call, where no other waits for it, was slow in that call") {
  // Rank 2 has its message of #1 after 1 ms, and works for 99 ms more, for which ranks 0 and 1 wait in #2, and 3 in #3.
  const TracedCall slow_in =
      call_of("broadcast #1", {{0, {0, ms}}, {1, {0, ms}}, {2, {0, 100 * ms}}}, message(0, 2, 0, ms));
  TracedCall waits_in =
      call_of("broadcast #2", {{0, {2 * ms, 101 * ms}}, {1, {ms, 101 * ms}}, {2, {100 * ms, 101 * ms}}},
              message(2, 0, 2 * ms, 100 * ms));
  waits_in.messages.push_back(message(2, 1, ms, 100 * ms));
  const TracedCall waits_too =
      call_of("barrier #3", {{2, {101 * ms, 102 * ms}}, {3, {3 * ms, 102 * ms}}}, message(2, 3, 3 * ms, 101 * ms));
  const Verdicts verdicts = judge({slow_in, waits_in, waits_too});
  const RankBlame& blame = verdicts.ranks.at(2);
  CHECK(blame.slow.time == 99 * ms + ms);  // the last one in #2
  CHECK(blame.slow.call == "broadcast #1");
  CHECK(blame.late.time == 0);
}

TEST_CASE("a rank that came late is to blame for all of the time in which it was in no call") {
  // Rank 2 is elsewhere until 50 ms, for 1 ms in a call of another group, and elsewhere again until 60 ms.
  const TracedCall other =
      call_of("barrier #1", {{2, {50 * ms, 51 * ms}}, {3, {50 * ms, 51 * ms}}}, message(3, 2, 50 * ms, 51 * ms));
  const TracedCall call =
      call_of("broadcast #1", {{0, {51 * ms, 61 * ms}}, {2, {60 * ms, 61 * ms}}}, message(2, 0, ms, 60 * ms));
  const Verdicts verdicts = judge({other, call});
  CHECK(verdicts.ranks.at(2).late.time == (49 + 9) * ms);
  CHECK(verdicts.ranks.at(2).slow.time == 0);
}

TEST_CASE("a rank that waits for a slot is not to blame, but the one that does not free it") {
  // Rank 1 comes after 60 ms. Rank 0 has no slot at it until then, and so is late with what rank 2 waits for.
  TracedMessage stuck = message(0, 1, 60 * ms, 60 * ms);
  stuck.blocked = {ms, 60 * ms};
  TracedCall call = call_of("broadcast #1", {{0, {0, 61 * ms}}, {1, {60 * ms, 61 * ms}}, {2, {0, 61 * ms}}}, stuck);
  call.messages.push_back(message(0, 2, 0, 61 * ms));
  const Verdicts verdicts = judge({call});
  CHECK(verdicts.ranks.at(0).slow.time == 2 * ms);
  CHECK(verdicts.ranks.at(0).waited == 59 * ms);
  CHECK(verdicts.ranks.at(1).late.time == 59 * ms);
}

TEST_CASE("the ranks of a call's group are by their places, and not known if one is missing") {
  TracedCall call;
  call.size = 3;
  call.places = {{0, 2}, {4, 0}};
  CHECK(call.members().empty());
  call.places[5] = 1;
  CHECK(call.members() == std::vector{4, 5, 0});
  call.places[5] = 2;  // of a damaged file
  CHECK(call.members().empty());
}

}  // namespace
}  // namespace tutti::cli
