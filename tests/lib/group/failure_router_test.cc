// What the failure detector asks of a rank may take long, and the detector does not wait for it. What a rank reports is
// bounded.

#include <doctest/doctest.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lib/api/communicator_state.h"
#include "lib/base/internals.h"
#include "lib/failure/control_connection.h"
#include "lib/failure/detector.h"
#include "tests/lib/failure/played_ranks.h"
#include "tests/lib/group/receive.h"
#include "tests/support/address_kinds.h"
#include "tests/support/alone.h"
#include "tests/support/signal.h"
#include "tests/support/world.h"

namespace tutti::detail {
namespace {

using namespace std::chrono_literals;
using testing::make_receive;
using testing::OverUnix;
using testing::Signal;

/// So rare beats that a busy machine makes nobody count as lost.
constexpr WatchSettings settings{.beat = 200ms, .lost = 2s};
constexpr std::uint64_t group_id = 4242;

/// Rank 0, which is the coordinator, with a communicator; the test plays rank 1.
struct Watching {
  Watching() {
    auto& router = *(context->failure_router = std::make_unique<FailureRouter>(0, std::vector<std::string>{"r0", "r1"},
                                                                               context->engine, context->log));
    auto acceptor = played::open_acceptor<OverUnix>(0, key);
    const std::string address = acceptor->address();
    router.set_detector(std::make_unique<FailureDetector>(0, std::move(acceptor), key));
    std::jthread begins{[&] {
      router.detector().begin({{address, "r0"}, {"127.0.0.1:9", "r1"}}, settings, router, deadline);
    }};
    second.emplace(played::dial(1, 0, address, key, deadline)).send({.kind = ControlMessage::Kind::beat});
  }

  const Secret key = Secret::random();
  const FailureDetector::Clock::time_point deadline = FailureDetector::Clock::now() + 20s;
  const std::shared_ptr<Context> context = testing::alone();
  std::optional<ControlConnection> second;
};

TEST_CASE("a rank goes on listening and sending heartbeats while a function of the program's runs for a failure") {
  Signal runs, may_end;  // a function that the program has given to then()
  Watching rank;
  CommunicatorState state{rank.context, group_id, {0}};
  int value = 0;
  Message& receive = make_receive(state, value, 7);
  receive.then([&](const Error*) {
    runs.give();
    may_end.comes();
  });
  rank.context->engine->submit(receive);

  const auto tell = [&](std::uint64_t group) {
    rank.second->send({.kind = ControlMessage::Kind::failure,
                       .failure = {.group = group, .code = ErrorCode::aborted, .culprit = 1, .text = "why"}});
  };
  tell(group_id);
  runs.await();
  // As the rank itself does, this one listens for longer than others wait before they call a rank lost.
  for (auto heard = 0ms; heard < settings.lost * 3 / 2; heard += settings.beat) {
    REQUIRE(played::hear(*rank.second, ControlMessage::Kind::beat, 1, rank.deadline));
    rank.second->send({.kind = ControlMessage::Kind::beat});
  }
  // Others are told of what happens meanwhile.
  tell(group_id + 2);
  CHECK(played::hear(*rank.second, ControlMessage::Kind::failure, 1, rank.deadline));
  may_end.give();
  rank.context->engine->exclusively([] {});
  CHECK(receive.done());
  receive.release();
}

TEST_CASE("a rank that is asked what it waits for takes first what has come") {
  for (const auto kind : {testing::Kind::inproc, testing::Kind::shm}) {
    CAPTURE(testing::name_of(kind));
    Signal waits, sent, over;
    testing::run_ranks({.ranks = 2, .kind = kind}, [&](Communicator& comm) {
      int value = 7;
      if (comm.rank() == 0) {
        waits.await();
        comm.send(std::span{&value, 1}, 1);
        sent.give();
        return over.await();
      }
      CommunicatorState& state = *Internals::state(comm);
      Message& receive = make_receive(state, value, 0);
      state.group.context().engine->submit(receive);
      waits.give();
      sent.await();
      Signal answered;
      Status status;
      state.group.context().failure_router->status({.group = state.group.id(), .call = "recv", .members = {0, 1}},
                                                   [&](const Status& answer) {
                                                     status = answer;
                                                     answered.give();
                                                   });
      answered.await();
      CHECK(status.wait == Status::Wait::nothing);
      CHECK(status.awaited.empty());
      CHECK(receive.done());
      receive.release();
      over.give();
    });
  }
}

TEST_CASE("calls of many groups that take long do not all list the groups, and those of few do") {
  for (const std::size_t count : {std::size_t{50}, std::size_t{500}}) {
    CAPTURE(count);
    const Secret key = Secret::random();
    const auto deadline = FailureDetector::Clock::now() + 20s;
    played::SilentCoordinator<OverUnix> first{key};
    const auto context = testing::alone();
    auto& router = *(context->failure_router = std::make_unique<FailureRouter>(1, std::vector<std::string>{"r0", "r1"},
                                                                               context->engine, context->log));
    router.set_detector(std::make_unique<FailureDetector>(1, played::open_acceptor<OverUnix>(1, key), key));
    router.detector().begin({{first.address(), "r0"}, {router.detector().address(), "r1"}}, played::never_silent,
                            router, deadline);
    ControlConnection connection = first.take(deadline);
    std::vector<std::unique_ptr<CommunicatorState>> states;
    for (std::uint64_t i = 0; i < count; ++i)
      states.push_back(std::make_unique<CommunicatorState>(context, group_id + 2 * i, std::vector<int>{0}));
    context->engine->exclusively([&] {
      for (const auto& state : states) router.ask(state->group, {.operation = 1, .call = "call"});
    });

    std::vector<ControlMessage> reports;
    while (reports.size() < count && FailureDetector::Clock::now() < deadline) {
      pollfd query{.fd = connection.fd(), .events = POLLIN, .revents = 0};
      ::poll(&query, 1, 100);
      std::vector<ControlMessage> messages;
      connection.read(messages);
      std::ranges::copy_if(messages, std::back_inserter(reports),
                           [](const ControlMessage& message) { return message.kind == ControlMessage::Kind::report; });
    }
    REQUIRE(reports.size() == count);
    const auto lists = [&](const ControlMessage& message) { return message.report.groups.size() == count; };
    const auto listing = static_cast<std::size_t>(std::ranges::count_if(reports, lists));
    CHECK(lists(reports.front()));
    CHECK((listing == count) == (count == 50));
    for (const ControlMessage& message : reports) CHECK(message.report.lists_all == lists(message));
  }
}

TEST_CASE("a rank that has closed more groups than it remembers does not claim to list all that it has made") {
  const auto context = testing::alone();
  const CommunicatorState state{context, group_id, {0}};
  auto close_groups = [&, next = group_id](int count) mutable {
    for (int i = 0; i < count; ++i) {
      next += 2;
      const CommunicatorState closed{context, next, {0}};
    }
  };
  const auto report = [&] {
    Report made;
    context->engine->exclusively([&] { made = context->failure_router->reunion_of(state.group); });
    return made;
  };
  close_groups(256);
  CHECK(report().groups.size() == 257);
  CHECK(report().lists_all);
  close_groups(1);
  CHECK(!report().lists_all);
}

}  // namespace
}  // namespace tutti::detail
