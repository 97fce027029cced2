#include "lib/engine/wait_escalation.h"

#include <doctest/doctest.h>

#include <vector>

namespace tutti::detail {
namespace {

using namespace std::chrono_literals;

using Act = WaitEscalation::Act;

const WaitEscalation::Clock::time_point begun = WaitEscalation::Clock::now();

/// When it asks, in milliseconds after the beginning, up to the deadline; `wait` is past the demand then.
std::vector<int> asks_of(WaitEscalation& wait) {
  std::vector<int> asks;
  for (;;) {
    const WaitEscalation::Clock::time_point at = wait.next();
    if (wait.act(at) != Act::ask) return asks;
    asks.push_back(static_cast<int>((at - begun) / 1ms));
  }
}

TEST_CASE("a long wait asks less and less often, demands at its deadline, and gives up half a second later") {
  WaitEscalation wait;
  wait.begin(begun, begun + 20s, true);
  CHECK(asks_of(wait) == std::vector{200, 600, 1400, 3000, 6200, 11200, 16200});  // pauses of 5 s at most
  CHECK(wait.next() == begun + 20s + 500ms);
  CHECK(wait.act(wait.next()) == Act::give_up);
}

TEST_CASE("a deadline before the first question is kept, and one that comes late is demanded at once") {
  WaitEscalation brief;
  brief.begin(begun, begun + 50ms, true);
  CHECK(brief.next() == begun + 50ms);
  CHECK(brief.act(begun + 70ms) == Act::demand);
  CHECK(brief.next() == begun + 570ms);
  CHECK(brief.act(begun + 570ms) == Act::give_up);
}

TEST_CASE("without a failure detector it gives up at its deadline") {
  WaitEscalation alone;
  alone.begin(begun, begun + 3s, false);
  CHECK(alone.next() == begun + 3s);
  CHECK(alone.act(begun + 3s) == Act::give_up);
}

TEST_CASE("a process that was stopped after its demand demands once more before it gives up") {
  WaitEscalation wait;
  wait.begin(begun, begun + 50ms, true);
  CHECK(wait.act(begun + 50ms) == Act::demand);
  CHECK(wait.act(begun + 700ms) == Act::demand);
  CHECK(wait.next() == begun + 1200ms);
  CHECK(wait.act(begun + 2s) == Act::give_up);  // once is enough
}

TEST_CASE("the departure of a rank makes a wait ask soon and often again, but never past its demand") {
  WaitEscalation wait;
  wait.begin(begun, begun + 30s, true);
  for (int i = 0; i < 5; ++i) CHECK(wait.act(wait.next()) == Act::ask);  // the next one is 5 s later
  const WaitEscalation::Clock::time_point now = begun + 7s;
  wait.hasten(now);
  CHECK(wait.next() == now + 200ms);
  CHECK(wait.act(wait.next()) == Act::ask);
  CHECK(wait.next() == now + 400ms);
  while (wait.act(wait.next()) == Act::ask) {
  }
  const WaitEscalation::Clock::time_point given_up = wait.next();
  wait.hasten(begun + 30s);
  CHECK(wait.next() == given_up);
}

TEST_CASE("of thousands that wait for long one asks for all, and those past their deadline are asked for apart") {
  AskLimit limit;
  const auto now = WaitEscalation::Clock::now();
  int asked = 0, demanded = 0;
  for (int i = 0; i < 10'000; ++i) {
    asked += limit.pass(now + i * 20us, false) ? 1 : 0;
    demanded += i % 2 == 1 && limit.pass(now + i * 20us, true) ? 1 : 0;
  }
  CHECK(asked == 4);  // in 200 ms
  CHECK(demanded == 4);
}

}  // namespace
}  // namespace tutti::detail
