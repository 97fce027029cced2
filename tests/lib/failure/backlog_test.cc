// A rank that is too busy to read what others ask about calls that take long is not lost, however many calls they are.

#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lib/failure/control_connection.h"
#include "lib/failure/detector.h"
#include "tests/lib/failure/played_ranks.h"
#include "tests/support/address_kinds.h"

namespace tutti::detail {
namespace {

using namespace std::chrono_literals;
using played::dial, played::hear, played::never_silent, played::open_acceptor;
using tutti::testing::OverUnix;

using Kind = ControlMessage::Kind;

constexpr std::size_t groups = 1000;

/// What a rank with many groups says of a call of one of them.
ControlMessage report_of(std::uint64_t group, std::vector<int> members, bool overdue = false) {
  return {.kind = Kind::report,
          .report = {.group = group,
                     .operation = 5,
                     .overdue = overdue,
                     .reporter = members.back(),
                     .call = "call",
                     .members = std::move(members),
                     .groups = std::vector<std::uint64_t>(groups, group)}};
}

TEST_CASE("what is asked of a peer that does not read is dropped, but not what is overdue or what it must know") {
  constexpr std::uint64_t urgent = 77;
  std::array<int, 2> ends{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) == 0);
  ControlConnection connection{Descriptor{ends[0]}};
  ControlConnection peer{Descriptor{ends[1]}};
  for (std::uint64_t group = 0; group < groups; ++group)
    for (const Kind kind : {Kind::report, Kind::question, Kind::answer}) {
      ControlMessage message = report_of(group, {0, 1});
      message.kind = kind;
      connection.send(message);
    }
  CHECK(connection.is_behind());
  REQUIRE(!connection.ended());
  for (const Kind kind : {Kind::report, Kind::question, Kind::answer}) {
    ControlMessage message{.kind = kind, .number = urgent};
    message.report.operation = urgent;
    message.report.overdue = true;
    connection.send(message);
  }
  connection.send({.kind = Kind::failure, .failure = {.group = 9, .text = "why"}});

  std::vector<ControlMessage> heard;
  for (connection.write(); connection.has_unsent(); connection.write()) peer.read(heard);
  peer.read(heard);
  REQUIRE(!heard.empty());
  CHECK(heard.size() < 3 * groups);
  CHECK(std::ranges::count_if(heard, [](const ControlMessage& message) {
          return message.number == urgent || message.report.operation == urgent;
        }) == 3);
  CHECK(heard.back().kind == Kind::failure);
  CHECK(!connection.is_behind());

  const ControlMessage longest{.kind = Kind::failure, .failure = {.text = std::string(4096, 'x')}};
  for (std::size_t bytes = 0; bytes < 4 * ControlConnection::most_unsent; bytes += 4096) connection.send(longest);
  CHECK(connection.ended());  // nothing keeps the peer from reading for so long but its end
}

/// Knows the groups that it was asked about.
class GroupsAskedAbout final : public DetectorUser {
 public:
  void suspected(const std::string&) noexcept override {}
  void failed(const Failure&) noexcept override {}
  void departed(const std::vector<int>&) noexcept override {}
  void status(const Report& about, Reply) noexcept override {
    const std::lock_guard lock{mutex_};
    groups_.push_back(about.group);
  }
  bool about(std::uint64_t group) {
    const std::lock_guard lock{mutex_};
    return std::ranges::count(groups_, group) > 0;
  }

 private:
  std::mutex mutex_;
  std::vector<std::uint64_t> groups_;
};

/// The first failure that `connection` hears until `deadline`.
Failure first_failure(ControlConnection& connection, FailureDetector::Clock::time_point deadline) {
  while (!connection.ended() && FailureDetector::Clock::now() < deadline) {
    pollfd query{.fd = connection.fd(), .events = POLLIN, .revents = 0};
    ::poll(&query, 1, 100);
    std::vector<ControlMessage> messages;
    connection.read(messages);
    for (const ControlMessage& message : messages)
      if (message.kind == Kind::failure) return message.failure;
  }
  return {};
}

/// Sends all of it.
void tell(ControlConnection& connection, const ControlMessage& message, FailureDetector::Clock::time_point deadline) {
  for (connection.send(message); connection.has_unsent() && !connection.ended(); connection.write()) {
    REQUIRE(FailureDetector::Clock::now() < deadline);
    pollfd query{.fd = connection.fd(), .events = POLLOUT, .revents = 0};
    ::poll(&query, 1, 100);
  }
}

TEST_CASE("a rank that does not read what the coordinator asks keeps its connection, and is not called silent") {
  const Secret key = Secret::random();
  const auto deadline = FailureDetector::Clock::now() + 20s;
  GroupsAskedAbout user;
  FailureDetector first{0, open_acceptor<OverUnix>(0, key), key};
  std::jthread one{[&] {
    first.begin({{first.address(), "r0"}, {"127.0.0.1:9", "r1"}, {"127.0.0.1:9", "r2"}}, never_silent, user, deadline);
  }};
  const auto join = [&](int rank) {
    ControlConnection connection = dial(rank, 0, first.address(), key, deadline);
    connection.send({.kind = Kind::beat});
    return connection;
  };
  ControlConnection busy = join(1), other = join(2);
  constexpr std::uint64_t asked_all = 2000, asked_none = 2002, said = 2004, overdue = 2006;
  for (std::uint64_t group = 1; group < groups; ++group) tell(other, report_of(group, {0, 1, 2}), deadline);
  tell(other, report_of(asked_none, {0, 1, 2}), deadline);
  // Heard when the coordinator has done with all of that.
  tell(other, {.kind = Kind::failure, .failure = {.group = said, .code = ErrorCode::aborted, .text = "why"}}, deadline);
  CHECK(first_failure(other, deadline).group == said);
  CHECK(!user.about(asked_none));
  // At the deadline there must be a verdict.
  tell(other, report_of(overdue, {0, 1, 2}, true), deadline);
  const Failure verdict = first_failure(other, deadline);
  CHECK(verdict.group == overdue);

  CHECK(first_failure(busy, deadline).group == said);  // behind all that it was asked
  tell(other, report_of(asked_all, {0, 1, 2}, true), deadline);
  while (!user.about(asked_all) && FailureDetector::Clock::now() < deadline) std::this_thread::yield();
  CHECK(user.about(asked_all));
  CHECK(hear(busy, Kind::question, 1, deadline));
}

}  // namespace
}  // namespace tutti::detail
