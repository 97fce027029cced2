// What a coordinator concludes from what ranks report and answer.

#include <doctest/doctest.h>
#include <poll.h>

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
using played::dial, played::hear, played::never_silent, played::Nobody, played::open_acceptor,
    played::SilentCoordinator;
using tutti::testing::OverTcp, tutti::testing::OverUnix;

/// Tells what `connection` hears until `deadline`: the failure, or one without a text.
Failure answer_until_failure(ControlConnection& connection, const Status& status,
                             FailureDetector::Clock::time_point deadline) {
  while (!connection.ended() && FailureDetector::Clock::now() < deadline) {
    pollfd query{.fd = connection.fd(), .events = POLLIN, .revents = 0};
    ::poll(&query, 1, 100);
    std::vector<ControlMessage> messages;
    connection.read(messages);
    for (const ControlMessage& message : messages) {
      if (message.kind == ControlMessage::Kind::failure) return message.failure;
      if (message.kind == ControlMessage::Kind::question)
        connection.send({.kind = ControlMessage::Kind::answer, .number = message.number, .status = status});
    }
  }
  return {};
}

/// What a rank says that has done `steps_done` steps of call 5.
Status in_the_call(std::uint32_t steps_done) {
  Status status;
  status.presence = Status::Presence::here;
  status.started = 5;
  status.finished = 4;
  status.steps_done = steps_done;
  status.steps = 2;
  return status;
}

/// A rank that takes long to say what it does, since its process is stopped for a while.
class Slow final : public DetectorUser {
 public:
  void suspected(const std::string&) noexcept override {}
  void failed(const Failure&) noexcept override {}
  void departed(const std::vector<int>&) noexcept override {}
  std::optional<Status> status(const Report&) noexcept override {
    std::this_thread::sleep_for(350ms);
    return in_the_call(0);
  }
};

TEST_CASE_TEMPLATE("others have all their time to answer, however long the coordinator needs for its own", Kind,
                   OverTcp, OverUnix) {
  const Secret key = Secret::random();
  const auto deadline = FailureDetector::Clock::now() + 20s;
  Slow user;
  FailureDetector first{0, open_acceptor<Kind>(0, key), key};
  std::jthread one{[&] {
    first.begin({{first.address(), "r0"}, {"127.0.0.1:9", "r1"}}, never_silent, user, deadline);
  }};
  ControlConnection second = dial(1, 0, first.address(), key, deadline);
  second.send({.kind = ControlMessage::Kind::beat});
  second.send({.kind = ControlMessage::Kind::report,
               .report = {.group = 9, .operation = 5, .overdue = true, .reporter = 1, .call = {}, .members = {0, 1}}});
  const std::string told = answer_until_failure(second, in_the_call(1), deadline).text;
  CHECK(told.find("every rank is in the call; r0 is the furthest behind") != std::string::npos);
}

/// What a rank says whose call 5 is `call`.
Status in_the_call(const std::string& call) {
  Status status = in_the_call(0);
  status.call = call;
  return status;
}

/// A rank that called "a", and takes longer to say so than suspicions wait.
class Caller final : public DetectorUser {
 public:
  void suspected(const std::string&) noexcept override {}
  void failed(const Failure&) noexcept override {}
  void departed(const std::vector<int>&) noexcept override {}
  std::optional<Status> status(const Report&) noexcept override {
    std::this_thread::sleep_for(100ms);
    return in_the_call("a");
  }
};

TEST_CASE_TEMPLATE("of two ranks that suspect each other the one is named that called what no other did", Kind, OverTcp,
                   OverUnix) {
  const Secret key = Secret::random();
  const auto deadline = FailureDetector::Clock::now() + 20s;
  Caller user;
  FailureDetector first{0, open_acceptor<Kind>(0, key), key};
  std::jthread one{[&] {
    first.begin({{first.address(), "r0"}, {"127.0.0.1:9", "r1"}, {"127.0.0.1:9", "r2"}}, never_silent, user, deadline);
  }};
  const auto join = [&](int rank) {
    ControlConnection connection = dial(rank, 0, first.address(), key, deadline);
    connection.send({.kind = ControlMessage::Kind::beat});
    return connection;
  };
  // Rank 1 is heard first, and a vote would end with it.
  const auto suspect = [](ControlConnection& connection, int reporter, int culprit) {
    connection.send({.kind = ControlMessage::Kind::suspicion,
                     .failure = {.group = 9, .code = ErrorCode::mismatch, .culprit = culprit, .text = "differs"},
                     .report = {.group = 9, .operation = 5, .reporter = reporter, .call = {}, .members = {0, 1, 2}}});
  };
  ControlConnection second = join(1), third = join(2);
  suspect(second, 1, 2);
  suspect(third, 2, 1);
  std::jthread other{[&] { answer_until_failure(third, in_the_call("a"), deadline); }};
  const Failure told = answer_until_failure(second, in_the_call("b"), deadline);
  CHECK(told.culprit == 1);
  CHECK(told.text == "r1 called b while r0 called a");
}

/// Heartbeats come only on other occasions.
constexpr WatchSettings no_beats{.beat = 1h, .lost = 10h};

TEST_CASE_TEMPLATE("a rank that cannot answer shows after each question that it is alive", Kind, OverTcp, OverUnix) {
  constexpr int questions = 20;
  const Secret key = Secret::random();
  const auto deadline = FailureDetector::Clock::now() + 20s;
  Nobody user;  // it never answers, as a thread does not that is in a function of the program's
  SilentCoordinator<Kind> first{key};
  FailureDetector second{1, open_acceptor<Kind>(1, key), key};
  second.begin({{first.address(), "r0"}, {second.address(), "r1"}}, no_beats, user, deadline);
  ControlConnection connection = first.take(deadline);
  for (std::uint64_t number = 1; number <= questions; ++number)
    connection.send({.kind = ControlMessage::Kind::question,
                     .number = number,
                     .report = {.group = 9, .operation = number, .reporter = 0, .call = {}, .members = {0, 1}}});
  CHECK(hear(connection, ControlMessage::Kind::beat, questions, deadline));
}

TEST_CASE_TEMPLATE("a coordinator that cannot answer itself shows after each report that it is alive", Kind, OverTcp,
                   OverUnix) {
  constexpr int reports = 20;
  const Secret key = Secret::random();
  const auto deadline = FailureDetector::Clock::now() + 20s;
  Nobody user;  // it never answers, as a thread does not that is in a function of the program's
  FailureDetector first{0, open_acceptor<Kind>(0, key), key};
  std::jthread one{[&] { first.begin({{first.address(), "r0"}, {"127.0.0.1:9", "r1"}}, no_beats, user, deadline); }};
  ControlConnection second = dial(1, 0, first.address(), key, deadline);
  second.send({.kind = ControlMessage::Kind::beat});
  for (std::uint64_t group = 8; group < 8 + 2 * reports; group += 2)
    second.send({.kind = ControlMessage::Kind::report,
                 .report = {.group = group, .operation = 5, .reporter = 1, .call = {}, .members = {0, 1}}});
  CHECK(hear(second, ControlMessage::Kind::beat, reports, deadline));
}

}  // namespace
}  // namespace tutti::detail
