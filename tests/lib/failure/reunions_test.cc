// Ranks that give up a shrink() and call it again.

#include "lib/failure/reunions.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "lib/failure/control_connection.h"
#include "lib/failure/detector.h"
#include "tests/lib/failure/played_ranks.h"
#include "tests/support/address_kinds.h"

namespace tutti::detail {
namespace {

using namespace std::chrono_literals;
using played::dial, played::never_silent, played::Nobody, played::open_acceptor, played::SilentCoordinator;
using tutti::testing::OverTcp, tutti::testing::OverUnix;

Report report_of(std::uint64_t group) { return {.group = group, .call = {}, .members = {0, 1}}; }

ControlMessage decision_of(std::uint64_t group, std::uint64_t number) {
  return {.kind = ControlMessage::Kind::decision, .number = number, .report = report_of(group), .ranks = {0, 1}};
}

TEST_CASE("a rank that gave up when the coordinator decided gets that decision when it calls again") {
  Reunions reunions;
  REQUIRE_FALSE(reunions.wait(*reunions.begin(report_of(8)), FailureDetector::Clock::now()));
  reunions.decided(decision_of(8, 10));
  CHECK_FALSE(reunions.wait(*reunions.begin(report_of(6)), FailureDetector::Clock::now()));
  const auto again = reunions.begin(report_of(8));
  CHECK(reunions.untold(0).empty());
  const auto outcome = reunions.wait(*again, FailureDetector::Clock::now());
  REQUIRE(outcome);
  CHECK(outcome->group == 10);
  CHECK(outcome->members == std::vector<int>{0, 1});
  CHECK_FALSE(reunions.wait(*reunions.begin(report_of(8)), FailureDetector::Clock::now()));  // a decision is taken once
}

TEST_CASE("a decision for a call that was given up serves the next one, of which the coordinator is to forget") {
  Reunions reunions;
  REQUIRE_FALSE(reunions.wait(*reunions.begin(report_of(8)), FailureDetector::Clock::now()));
  const auto again = reunions.begin(report_of(8));
  REQUIRE(reunions.untold(0).size() == 1);
  ControlMessage decision = decision_of(8, 10);
  decision.report.operation = 1;
  CHECK(reunions.decided(decision));
  const std::vector<ControlMessage> told = reunions.untold(0);
  REQUIRE(told.size() == 1);
  CHECK(told[0].report.operation == again->report.operation);
  CHECK(told[0].report.overdue);
  CHECK(reunions.wait(*again, FailureDetector::Clock::now()));

  const auto third = reunions.begin(report_of(8));
  REQUIRE(reunions.untold(0).size() == 1);
  decision.report.operation = third->report.operation;
  CHECK_FALSE(reunions.decided(decision));
}

TEST_CASE("the latest decisions that nobody awaits are kept") {
  Reunions reunions;
  for (std::uint64_t group = 2; group <= 2000; group += 2) reunions.decided(decision_of(group, group + 2000));
  CHECK_FALSE(reunions.wait(*reunions.begin(report_of(2)), FailureDetector::Clock::now()));
  CHECK(reunions.wait(*reunions.begin(report_of(2000)), FailureDetector::Clock::now()));
}

TEST_CASE("each call to go on with the survivors has a number of its own") {
  Reunions reunions;
  const auto first = reunions.begin(report_of(8));
  CHECK(reunions.begin(report_of(8))->report.operation > first->report.operation);
}

/// What a connection brings, message by message.
class Inbox {
 public:
  explicit Inbox(ControlConnection& connection) : connection_(connection) {}
  /// The next message of that kind; one of another kind if none comes until `deadline`.
  ControlMessage next(ControlMessage::Kind kind, FailureDetector::Clock::time_point deadline) {
    while (true) {
      const auto found = std::ranges::find(messages_, kind, &ControlMessage::kind);
      if (found != messages_.end()) {
        ControlMessage message = *found;
        messages_.erase(messages_.begin(), found + 1);
        return message;
      }
      messages_.clear();
      if (connection_.ended() || FailureDetector::Clock::now() >= deadline) return {};
      pollfd query{.fd = connection_.fd(), .events = POLLIN, .revents = 0};
      ::poll(&query, 1, 100);
      connection_.read(messages_);
    }
  }

 private:
  ControlConnection& connection_;
  std::vector<ControlMessage> messages_;
};

TEST_CASE_TEMPLATE("a rank that gives up a shrink says so", Kind, OverTcp, OverUnix) {
  const Secret key = Secret::random();
  const auto deadline = FailureDetector::Clock::now() + 20s;
  Nobody user;
  SilentCoordinator<Kind> first{key};
  FailureDetector second{1, open_acceptor<Kind>(1, key), key};
  second.begin({{first.address(), "r0"}, {second.address(), "r1"}}, never_silent, user, deadline);
  ControlConnection connection = first.take(deadline);
  Inbox inbox{connection};
  ControlMessage call;
  std::uint64_t calls = 0;
  for (; call.kind != ControlMessage::Kind::reunion && FailureDetector::Clock::now() < deadline;
       ++calls) {  // a call may end untold
    CHECK_THROWS_AS(second.reunite(report_of(8), FailureDetector::Clock::now() + 20ms), Error);
    call = inbox.next(ControlMessage::Kind::reunion, FailureDetector::Clock::now() + 100ms);
  }
  const ControlMessage last = inbox.next(ControlMessage::Kind::reunion, deadline);
  CHECK(last.report.overdue);
  CHECK(last.report.group == 8);
  CHECK(last.report.operation == call.report.operation);
  CHECK(last.report.operation <= calls);
}

/// A coordinator, and a rank 1 that the test plays.
template <class Kind>
struct Pair {
  explicit Pair(FailureDetector::Clock::time_point deadline) {
    std::jthread one{[&] {
      CHECK_NOTHROW(first.begin({{first.address(), "r0"}, {"127.0.0.1:9", "r1"}}, never_silent, user, deadline));
    }};
    second.emplace(dial(1, 0, first.address(), key, deadline));
    inbox.emplace(*second);
    second->send({.kind = ControlMessage::Kind::beat});
  }
  const Secret key = Secret::random();
  Nobody user;
  FailureDetector first{0, open_acceptor<Kind>(0, key), key};
  std::optional<ControlConnection> second;
  std::optional<Inbox> inbox;
};

TEST_CASE_TEMPLATE("ranks that shrink do not go on with one that has given up, but wait until it calls again", Kind,
                   OverTcp, OverUnix) {
  const auto deadline = FailureDetector::Clock::now() + 20s;
  Pair<Kind> ranks{deadline};
  FailureDetector& first = ranks.first;
  ControlConnection& second = *ranks.second;
  Inbox& inbox = *ranks.inbox;
  const auto call = [&](std::uint64_t group, std::uint64_t number, bool gives_up) {
    ControlMessage message{.kind = ControlMessage::Kind::reunion, .report = report_of(group)};
    message.report.operation = number;
    message.report.overdue = gives_up;
    second.send(message);
  };
  call(8, 1, false);
  CHECK(inbox.next(ControlMessage::Kind::decision, deadline).ranks == std::vector<int>{0});  // is missing
  call(8, 1, true);
  call(6, 2, false);
  REQUIRE(inbox.next(ControlMessage::Kind::decision, deadline).report.group == 6);  // and that rank 1 gave up is read

  std::optional<Reunion> reunion;
  std::jthread caller{[&] { CHECK_NOTHROW(reunion = first.reunite(report_of(8), deadline)); }};
  CHECK(inbox.next(ControlMessage::Kind::decision, FailureDetector::Clock::now() + 100ms).number == 0);
  call(8, 3, false);
  ControlMessage decision;
  do decision = inbox.next(ControlMessage::Kind::decision, deadline);
  while (decision.kind == ControlMessage::Kind::decision && decision.number == 0);
  caller.join();
  CHECK(decision.ranks == std::vector<int>{0, 1});
  CHECK(decision.report.operation == 3);  // the call of rank 1, not that of rank 0
  REQUIRE(reunion);
  CHECK(reunion->group == decision.number);
  CHECK(reunion->members == std::vector<int>{0, 1});
}

TEST_CASE_TEMPLATE("a rank that has called shrink again is not taken for one that has given up", Kind, OverTcp,
                   OverUnix) {
  const auto deadline = FailureDetector::Clock::now() + 20s;
  Pair<Kind> ranks{deadline};
  FailureDetector& first = ranks.first;
  ControlConnection& second = *ranks.second;
  Inbox& inbox = *ranks.inbox;
  // The messages of rank 1 if its detector first looks during the second call.
  ControlMessage message{.kind = ControlMessage::Kind::reunion, .report = report_of(8)};
  message.report.operation = 2;
  second.send(message);
  message.report.operation = 1;
  message.report.overdue = true;
  second.send(message);
  second.send({.kind = ControlMessage::Kind::reunion, .report = report_of(6)});
  ControlMessage heard;
  do heard = inbox.next(ControlMessage::Kind::decision, deadline);
  while (heard.kind == ControlMessage::Kind::decision && heard.report.group != 6);
  REQUIRE(heard.report.group == 6);  // so all before is read

  Reunion reunion;
  REQUIRE_NOTHROW(reunion = first.reunite(report_of(8), std::min(deadline, FailureDetector::Clock::now() + 5s)));
  CHECK(reunion.members == std::vector<int>{0, 1});
}

}  // namespace
}  // namespace tutti::detail
