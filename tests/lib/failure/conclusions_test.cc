// What a coordinator concludes from what ranks report and answer.

#include <doctest/doctest.h>
#include <poll.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "lib/failure/control_connection.h"
#include "lib/failure/detector.h"
#include "tests/lib/failure/played_ranks.h"
#include "tests/support/address_kinds.h"

namespace tutti::detail {
namespace {

using namespace std::chrono_literals;
using played::dial, played::hear, played::never_silent, played::open_acceptor, played::SilentCoordinator;
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

/// The first answer on `connection`; one without a call if there is none until `deadline`.
Status answer_in(ControlConnection& connection, FailureDetector::Clock::time_point deadline) {
  while (!connection.ended() && FailureDetector::Clock::now() < deadline) {
    pollfd query{.fd = connection.fd(), .events = POLLIN, .revents = 0};
    ::poll(&query, 1, 100);
    std::vector<ControlMessage> messages;
    connection.read(messages);
    for (const ControlMessage& message : messages)
      if (message.kind == ControlMessage::Kind::answer) return message.status;
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

/// A rank that answers when the test does so for it.
class Asked final : public DetectorUser {
 public:
  void suspected(const std::string&) noexcept override {}
  void failed(const Failure&) noexcept override {}
  void departed(const std::vector<int>&) noexcept override {}
  void status(const Report&, Reply reply) noexcept override {
    const std::lock_guard lock{mutex_};
    replies_.push_back(std::move(reply));
    asked_.notify_all();
  }

  /// Takes the answer to the next question.
  Reply reply(FailureDetector::Clock::time_point deadline) {
    std::unique_lock lock{mutex_};
    REQUIRE(asked_.wait_until(lock, deadline, [this] { return !replies_.empty(); }));
    Reply first = std::move(replies_.front());
    replies_.pop_front();
    return first;
  }

 private:
  std::mutex mutex_;
  std::condition_variable asked_;
  std::deque<Reply> replies_;
};

/// A coordinator, and rank 1, which the test plays and whose call is overdue.
template <class Kind>
struct Two {
  Two() {
    second.send({.kind = ControlMessage::Kind::beat});
    second.send(
        {.kind = ControlMessage::Kind::report,
         .report = {.group = 9, .operation = 5, .overdue = true, .reporter = 1, .call = {}, .members = {0, 1}}});
  }

  const Secret key = Secret::random();
  const FailureDetector::Clock::time_point deadline = FailureDetector::Clock::now() + 20s;
  Asked on_first;
  FailureDetector first{0, open_acceptor<Kind>(0, key), key};
  std::jthread one{[this] {
    first.begin({{first.address(), "r0"}, {"127.0.0.1:9", "r1"}}, never_silent, on_first, deadline);
  }};
  ControlConnection second = dial(1, 0, first.address(), key, deadline);
};

TEST_CASE_TEMPLATE("the coordinator takes its own answer when it comes, as those of others", Kind, OverTcp, OverUnix) {
  Two<Kind> ranks;
  std::jthread other{[&] { ranks.on_first.reply(ranks.deadline)(in_the_call(0)); }};
  const std::string told = answer_until_failure(ranks.second, in_the_call(1), ranks.deadline).text;
  CHECK(told.find("every rank is in the call; r0 is the furthest behind") != std::string::npos);
}

TEST_CASE_TEMPLATE("a coordinator that cannot answer for itself is named as any other rank", Kind, OverTcp, OverUnix) {
  Two<Kind> ranks;
  const std::string told = answer_until_failure(ranks.second, in_the_call(1), ranks.deadline).text;
  CHECK(told.find("r0 does not answer, and its last heartbeat is 0.0 s old") != std::string::npos);
}

/// What a rank says whose call 5 is `call`.
Status in_the_call(const std::string& call) {
  Status status = in_the_call(0);
  status.call = call;
  return status;
}

TEST_CASE_TEMPLATE("of two ranks that suspect each other the one is named that called what no other did", Kind, OverTcp,
                   OverUnix) {
  const Secret key = Secret::random();
  const auto deadline = FailureDetector::Clock::now() + 20s;
  Asked user;
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
  std::jthread own{[&] {
    const auto reply = user.reply(deadline);
    std::this_thread::sleep_for(100ms);  // longer than suspicions wait
    reply(in_the_call("a"));
  }};
  const Failure told = answer_until_failure(second, in_the_call("b"), deadline);
  CHECK(told.culprit == 1);
  CHECK(told.text == "r1 called b while r0 called a");
}

TEST_CASE_TEMPLATE("a rank that has not answered yet is heard of meanwhile, and the coordinator, too", Kind, OverTcp,
                   OverUnix) {
  constexpr int beats = 20;
  const Secret key = Secret::random();
  const auto deadline = FailureDetector::Clock::now() + 20s;
  Asked user;
  SilentCoordinator<Kind> first{key};
  FailureDetector second{1, open_acceptor<Kind>(1, key), key};
  second.begin({{first.address(), "r0"}, {second.address(), "r1"}}, never_silent, user, deadline);
  ControlConnection connection = first.take(deadline);
  connection.send({.kind = ControlMessage::Kind::question,
                   .number = 7,
                   .report = {.group = 9, .operation = 5, .reporter = 0, .call = {}, .members = {0, 1}}});
  const auto reply = user.reply(deadline);
  CHECK(hear(connection, ControlMessage::Kind::beat, beats, deadline));
  reply(in_the_call(1));
  CHECK(hear(connection, ControlMessage::Kind::answer, 1, deadline));

  Two<Kind> ranks;
  ranks.on_first.reply(deadline);
  CHECK(hear(ranks.second, ControlMessage::Kind::beat, beats, deadline));
}

TEST_CASE_TEMPLATE("an answer goes to the coordinator that asked, and not to the next one", Kind, OverTcp, OverUnix) {
  const Secret key = Secret::random();
  const auto deadline = FailureDetector::Clock::now() + 20s;
  Asked user;
  SilentCoordinator<Kind> first{key};
  SilentCoordinator<Kind> second{key, 1};
  FailureDetector third{2, open_acceptor<Kind>(2, key), key};
  third.begin({{first.address(), "r0"}, {second.address(), "r1"}, {third.address(), "r2"}}, never_silent, user,
              deadline);
  const auto ask = [](ControlConnection& connection) {
    connection.send({.kind = ControlMessage::Kind::question,
                     .number = 1,
                     .report = {.group = 9, .operation = 5, .reporter = 0, .call = {}, .members = {0, 1, 2}}});
  };
  std::optional<ControlConnection> to_first = first.take(deadline);
  ask(*to_first);
  const auto late = user.reply(deadline);
  to_first->send({.kind = ControlMessage::Kind::leave});
  to_first.reset();
  ControlConnection to_second = second.take(deadline);
  late(in_the_call("late"));
  ask(to_second);
  user.reply(deadline)(in_the_call("right"));
  CHECK(answer_in(to_second, deadline).call == "right");
}

TEST_CASE_TEMPLATE("a coordinator to which not all connect gives up at its deadline, and says where it listens", Kind,
                   OverTcp, OverUnix) {
  const Secret key = Secret::random();
  played::Nobody nobody;
  FailureDetector first{0, open_acceptor<Kind>(0, key), key};
  std::string told;
  try {
    first.begin({{first.address(), "r0"}, {"127.0.0.1:9", "r1"}}, never_silent, nobody,
                FailureDetector::Clock::now() + 50ms);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::rendezvous);
    told = error.what();
  }
  CHECK(told.find("set-up: r0 waited until its deadline for all ranks to connect to the coordinator, r0 at " +
                  first.address()) != std::string::npos);
  CHECK((told.find("may connect to that port") != std::string::npos) == std::is_same_v<Kind, OverTcp>);
}

}  // namespace
}  // namespace tutti::detail
