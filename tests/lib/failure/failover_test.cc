// How ranks come to the coordinator: again, after the first connection came to nothing; and to its
// successor, before that knows that it is one.

#include <doctest/doctest.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
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
#include "transport/acceptor.h"

namespace tutti::detail {
namespace {

using namespace std::chrono_literals;
using played::dial, played::hear, played::never_silent, played::Nobody, played::open_acceptor,
    played::SilentCoordinator;
using tutti::testing::OverTcp, tutti::testing::OverUnix;

/// Remembers what it was told.
class Listener final : public DetectorUser {
 public:
  void suspected(const std::string&) noexcept override {}
  void failed(const Failure& failure) noexcept override {
    const std::lock_guard lock{mutex_};
    losses_.emplace_back(failure.culprit, FailureDetector::Clock::now());
    news_.notify_all();
  }
  void departed(const std::vector<int>& ranks) noexcept override {
    const std::lock_guard lock{mutex_};
    departed_.insert(departed_.end(), ranks.begin(), ranks.end());
    news_.notify_all();
  }
  void status(const Report&, Reply) noexcept override {}

  /// When the loss of `rank` was told; nothing: it was not, until `deadline`.
  std::optional<FailureDetector::Clock::time_point> loss_of(int rank, FailureDetector::Clock::time_point deadline) {
    std::unique_lock lock{mutex_};
    const auto find = [&] {
      return std::ranges::find(losses_, rank, &std::pair<int, FailureDetector::Clock::time_point>::first);
    };
    if (!news_.wait_until(lock, deadline, [&] { return find() != losses_.end(); })) return std::nullopt;
    return find()->second;
  }
  bool hears_that_departed(int rank, FailureDetector::Clock::time_point deadline) {
    std::unique_lock lock{mutex_};
    return news_.wait_until(lock, deadline, [&] { return std::ranges::count(departed_, rank) > 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable news_;
  std::vector<std::pair<int, FailureDetector::Clock::time_point>> losses_;
  std::vector<int> departed_;
};

/// An address of this host's, of which nobody else gets hold: where nobody listens, or nobody answers.
class UnansweredAddress {
 public:
  UnansweredAddress(const net::Address& at, bool listens)
      : socket_(::socket(at.family(), SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    REQUIRE(::bind(socket_.get(), at.get(), at.length) == 0);
    if (listens) REQUIRE(::listen(socket_.get(), 16) == 0);
  }
  std::string address() const { return net::local_address(socket_).text(); }

 private:
  Descriptor socket_;
};

TEST_CASE_TEMPLATE("a rank that gave up waiting for the last proof comes again, and nobody calls it lost", Kind,
                   OverTcp, OverUnix) {
  for (const bool closed : {false, true}) {
    const Secret key = Secret::random();
    const auto deadline = FailureDetector::Clock::now() + 20s;
    Nobody user;
    FailureDetector first{0, open_acceptor<Kind>(0, key), key};
    FailureDetector second{1, open_acceptor<Kind>(1, key), key};
    const std::vector<Watched> ranks{{first.address(), "r0"}, {second.address(), "r1"}};
    const WatchSettings settings{.beat = 20ms};
    std::optional<ControlConnection> in_vain = dial(1, 0, first.address(), key, deadline);
    if (closed) in_vain.reset();
    std::jthread coordinator{[&] { CHECK_NOTHROW(first.begin(ranks, settings, user, deadline)); }};
    CHECK_NOTHROW(second.begin(ranks, settings, user, deadline));
    coordinator.join();
    // A second connection that claims to be a rank which has already sent a beat is closed, whatever it sends.
    ControlConnection stranger = dial(1, 0, first.address(), key, deadline);
    stranger.send({.kind = ControlMessage::Kind::beat});
    CHECK(!hear(stranger, ControlMessage::Kind::ready, 1, deadline));
    CHECK(stranger.ended());
    CHECK(first.coordinator() == 0);
    CHECK(second.coordinator() == 0);
  }
}

TEST_CASE_TEMPLATE("a message to a rank that does not yet know that it is the coordinator is heard once it does", Kind,
                   OverTcp, OverUnix) {
  const Secret key = Secret::random();
  const auto deadline = FailureDetector::Clock::now() + 20s;
  Nobody user;
  FailureDetector first{0, open_acceptor<Kind>(0, key), key};
  FailureDetector second{1, open_acceptor<Kind>(1, key), key};
  const std::vector<Watched> ranks{{first.address(), "r0"}, {second.address(), "r1"}, {"127.0.0.1:9", "r2"}};
  const WatchSettings settings{.beat = 20ms};
  std::jthread other{[&] { second.begin(ranks, settings, user, deadline); }};
  std::jthread one{[&] { first.begin(ranks, settings, user, deadline); }};
  const auto call = [&](int to) {  // as rank 2
    ControlConnection connection = dial(2, to, ranks[static_cast<std::size_t>(to)].address, key, deadline);
    connection.send({.kind = ControlMessage::Kind::beat});
    return connection;
  };
  const ControlConnection to_first = call(0);
  one.join();
  other.join();

  // Rank 2 knows already that rank 0 is gone.
  ControlConnection third = call(1);
  const Report report{.group = 8, .reporter = 2, .call = {}, .members = {0, 1, 2}};
  third.send({.kind = ControlMessage::Kind::reunion, .report = report});
  // Rank 1 looks at its connections before each beat: after the second one it has read the message.
  REQUIRE(hear(third, ControlMessage::Kind::beat, 2, deadline));
  CHECK(second.coordinator() == 0);
  first.cut();

  const Reunion reunion = second.reunite(report, deadline);
  CHECK(reunion.members == std::vector<int>{1, 2});
  CHECK(hear(third, ControlMessage::Kind::decision, 1, deadline));
}

/// Ranks 0 and 2, and ranks 1 and 3, which the test plays: nobody listens at their addresses.
template <class Kind>
struct Four {
  Four() {
    const std::vector<Watched> ranks{
        {first.address(), "r0"}, {places[0].address(), "r1"}, {third.address(), "r2"}, {places[1].address(), "r3"}};
    std::jthread other{[&] { third.begin(ranks, never_silent, on_third, deadline); }};
    std::jthread one{[&] { first.begin(ranks, never_silent, on_first, deadline); }};
    for (const int rank : {1, 3})
      played.emplace_back(dial(rank, 0, ranks[0].address, key, deadline)).send({.kind = ControlMessage::Kind::beat});
  }
  /// In the eyes of rank 2.
  std::vector<int> survivors() {
    return third.reunite({.group = 8, .reporter = 2, .call = {}, .members = {0, 1, 2, 3}}, deadline).members;
  }

  const Secret key = Secret::random();
  const FailureDetector::Clock::time_point deadline = FailureDetector::Clock::now() + 20s;
  Listener on_first;
  Listener on_third;
  FailureDetector first{0, open_acceptor<Kind>(0, key), key};
  FailureDetector third{2, open_acceptor<Kind>(2, key), key};
  std::array<UnansweredAddress, 2> places{UnansweredAddress{Kind::anywhere(), false},
                                          UnansweredAddress{Kind::anywhere(), false}};
  std::deque<ControlConnection> played;
};

TEST_CASE_TEMPLATE("ranks that died together with the coordinator are missed at once, its successor and others", Kind,
                   OverTcp, OverUnix) {
  Four<Kind> ranks;
  ranks.first.cut();
  for (const int rank : {0, 1, 3}) CHECK(ranks.on_third.loss_of(rank, ranks.deadline));
  CHECK(ranks.survivors() == std::vector<int>{2});
}

TEST_CASE_TEMPLATE("ranks that went when the coordinator had left are told of, but nobody says that they died", Kind,
                   OverTcp, OverUnix) {
  Four<Kind> ranks;
  ranks.first.stop();
  for (const int rank : {0, 1, 3}) CHECK(ranks.on_third.hears_that_departed(rank, ranks.deadline));
  CHECK(ranks.survivors() == std::vector<int>{2});
  for (const int rank : {0, 1, 3}) CHECK(!ranks.on_third.loss_of(rank, FailureDetector::Clock::now()));
}

TEST_CASE_TEMPLATE("a rank that left on purpose is not taken for dead when the coordinator dies afterwards", Kind,
                   OverTcp, OverUnix) {
  Four<Kind> ranks;
  ranks.played[1].send({.kind = ControlMessage::Kind::leave});
  CHECK(ranks.on_third.hears_that_departed(3, ranks.deadline));
  ranks.first.cut();
  for (const int rank : {0, 1}) CHECK(ranks.on_third.loss_of(rank, ranks.deadline));
  CHECK(ranks.survivors() == std::vector<int>{2});
  CHECK(!ranks.on_third.loss_of(3, FailureDetector::Clock::now()));
}

TEST_CASE_TEMPLATE("a rank that dies while the others shrink is not waited for, nor is a coordinator", Kind, OverTcp,
                   OverUnix) {
  Four<Kind> ranks;
  const Report report{.group = 8, .call = {}, .members = {0, 1, 2, 3}};
  std::vector<int> survivors;
  std::jthread survivor{[&] { survivors = ranks.survivors(); }};
  ranks.played[0].send({.kind = ControlMessage::Kind::reunion, .report = report});
  // Rank 0 tells who is still missing.
  REQUIRE(hear(ranks.played[0], ControlMessage::Kind::decision, 1, ranks.deadline));
  ranks.played.pop_back();
  CHECK(ranks.on_first.loss_of(3, ranks.deadline));
  ranks.first.cut();
  survivor.join();
  CHECK(survivors == std::vector<int>{2});
}

TEST_CASE_TEMPLATE("ranks that are as silent as the coordinator are given up together with it, however many they are",
                   Kind, OverTcp, OverUnix) {
  constexpr auto lost = 2s;
  const Secret key = Secret::random();
  const auto deadline = FailureDetector::Clock::now() + 30s;
  SilentCoordinator<Kind> silent{key};
  std::deque<UnansweredAddress> places;  // of ranks 1 to 3, which are stopped, and 4, which has died
  std::vector<Watched> ranks{{silent.address(), "r0"}};
  for (int rank = 1; rank <= 4; ++rank)
    ranks.push_back({places.emplace_back(Kind::anywhere(), rank < 4).address(), "r" + std::to_string(rank)});
  Listener on_fifth;
  Listener on_sixth;
  FailureDetector fifth{5, open_acceptor<Kind>(5, key), key};
  FailureDetector sixth{6, open_acceptor<Kind>(6, key), key};
  ranks.push_back({fifth.address(), "r5"});
  ranks.push_back({sixth.address(), "r6"});
  fifth.begin(ranks, {.beat = 100ms, .lost = lost}, on_fifth, deadline);
  sixth.begin(ranks, {.beat = 100ms, .lost = lost}, on_sixth, deadline);

  const Report report{.group = 8, .call = {}, .members = {0, 1, 2, 3, 4, 5, 6}};
  Reunion of_sixth;
  std::jthread other{[&] { CHECK_NOTHROW(of_sixth = sixth.reunite(report, deadline)); }};
  CHECK(fifth.reunite(report, deadline).members == std::vector<int>{5, 6});
  other.join();
  CHECK(of_sixth.members == std::vector<int>{5, 6});
  for (Listener* const user : {&on_fifth, &on_sixth}) {
    const auto first = user->loss_of(0, deadline);
    REQUIRE(first);
    for (int rank = 1; rank <= 4; ++rank) {
      const auto next = user->loss_of(rank, deadline);
      REQUIRE(next);
      CHECK(*next - *first < lost);  // one after the other they would take this long each
    }
  }
}

TEST_CASE_TEMPLATE("a shrink that begins while there is no coordinator is announced to the next one once", Kind,
                   OverTcp, OverUnix) {
  const Secret key = Secret::random();
  const auto deadline = FailureDetector::Clock::now() + 20s;
  Nobody user;
  SilentCoordinator<Kind> first{key};
  SilentCoordinator<Kind> second{key, 1};
  FailureDetector third{2, open_acceptor<Kind>(2, key), key};
  third.begin({{first.address(), "r0"}, {second.address(), "r1"}, {third.address(), "r2"}}, never_silent, user,
              deadline);
  first.take(deadline).send({.kind = ControlMessage::Kind::leave});  // and is gone
  while (third.coordinator() != 1 && FailureDetector::Clock::now() < deadline) std::this_thread::yield();
  std::jthread caller{[&] {
    const Report report{.group = 8, .call = {}, .members = {1, 2}};
    CHECK_NOTHROW(third.reunite(report, deadline));
  }};
  ControlConnection connection = second.take(deadline);
  std::ptrdiff_t reunions = 0;
  for (std::ptrdiff_t beats = 0; beats < 3 && !connection.ended() && FailureDetector::Clock::now() < deadline;) {
    pollfd query{.fd = connection.fd(), .events = POLLIN, .revents = 0};
    ::poll(&query, 1, 100);
    std::vector<ControlMessage> messages;
    connection.read(messages);
    reunions += std::ranges::count(messages, ControlMessage::Kind::reunion, &ControlMessage::kind);
    if (reunions > 0) beats += std::ranges::count(messages, ControlMessage::Kind::beat, &ControlMessage::kind);
  }
  CHECK(reunions == 1);
  connection.send({.kind = ControlMessage::Kind::decision,
                   .number = 10,
                   .report = {.group = 8, .call = {}, .members = {}},
                   .ranks = {2}});
}

TEST_CASE_TEMPLATE("a decision about survivors stands although the coordinator that made it leaves at once", Kind,
                   OverTcp, OverUnix) {
  for (int repetition = 0; repetition < 20;
       ++repetition) {  // the caller must not have woken when the coordinator leaves
    const Secret key = Secret::random();
    const auto deadline = FailureDetector::Clock::now() + 20s;
    Nobody user;
    SilentCoordinator<Kind> first{key};
    FailureDetector second{1, open_acceptor<Kind>(1, key), key};
    second.begin({{first.address(), "r0"}, {second.address(), "r1"}}, never_silent, user, deadline);
    ControlConnection connection = first.take(deadline);
    std::vector<int> survivors;
    std::jthread caller{[&] {
      survivors = second.reunite({.group = 8, .call = {}, .members = {0, 1}}, deadline).members;
    }};
    REQUIRE(hear(connection, ControlMessage::Kind::reunion, 1, deadline));
    connection.send({.kind = ControlMessage::Kind::decision,
                     .number = 10,
                     .report = {.group = 8, .call = {}, .members = {}},
                     .ranks = {0, 1}});
    connection.send({.kind = ControlMessage::Kind::leave});
    { const ControlConnection gone = std::move(connection); }
    caller.join();
    CHECK(survivors == std::vector{0, 1});
  }
}

TEST_CASE_TEMPLATE("calls that differ are compared by the next coordinator where the one before left first", Kind,
                   OverTcp, OverUnix) {
  const Secret key = Secret::random();
  const auto deadline = FailureDetector::Clock::now() + 20s;
  Nobody user;
  SilentCoordinator<Kind> first{key};
  FailureDetector second{1, open_acceptor<Kind>(1, key), key};
  const UnansweredAddress third{Kind::anywhere(), true};
  second.begin({{first.address(), "r0"}, {second.address(), "r1"}, {third.address(), "r2"}}, never_silent, user,
               deadline);
  ControlConnection to_third = dial(2, 1, second.address(), key, deadline);
  to_third.send({.kind = ControlMessage::Kind::beat});
  {
    ControlConnection to_first = first.take(deadline);
    second.suspect({.group = 9, .code = ErrorCode::mismatch, .culprit = 2, .text = "differs"},
                   {.group = 9, .operation = 5, .reporter = 1, .call = {}, .members = {0, 1, 2}});
    REQUIRE(hear(to_first, ControlMessage::Kind::suspicion, 1, deadline));
    to_first.send({.kind = ControlMessage::Kind::leave});
  }
  CHECK(hear(to_third, ControlMessage::Kind::question, 1, deadline));
}

TEST_CASE_TEMPLATE("all ranks are told which one went before everybody was there", Kind, OverTcp, OverUnix) {
  const Secret key = Secret::random();
  const auto deadline = FailureDetector::Clock::now() + 20s;
  Nobody user;
  FailureDetector first{0, open_acceptor<Kind>(0, key), key};
  FailureDetector second{1, open_acceptor<Kind>(1, key), key};
  const UnansweredAddress place{Kind::anywhere(), false};
  const std::vector<Watched> ranks{{first.address(), "r0"}, {second.address(), "r1"}, {place.address(), "r2"}};
  const auto culprit_of = [&](FailureDetector& detector) {
    try {
      detector.begin(ranks, never_silent, user, deadline);
    } catch (const Error& error) {
      CHECK_MESSAGE(error.code() == ErrorCode::peer_lost, error.what());
      return error.rank();
    }
    return -1;
  };
  // Rank 1 comes when rank 0 knows already.
  std::optional<ControlConnection> third = dial(2, 0, ranks[0].address, key, deadline);
  third->send({.kind = ControlMessage::Kind::beat});
  int culprit = -1;
  std::jthread one{[&] { culprit = culprit_of(first); }};
  REQUIRE(hear(*third, ControlMessage::Kind::beat, 1, deadline));
  third.reset();
  CHECK(culprit_of(second) == 2);
  one.join();
  CHECK(culprit == 2);
}

TEST_CASE_TEMPLATE("a rank that nobody can reach at set-up is not called dead, and over TCP a firewall is named", Kind,
                   OverTcp, OverUnix) {
  const Secret key = Secret::random();
  const auto deadline = FailureDetector::Clock::now() + 20s;
  const UnansweredAddress place{Kind::anywhere(), false};
  for (const int rank : {0, 1}) {  // rank 0 misses one that never came, rank 1 its coordinator
    Nobody user;
    FailureDetector detector{rank, open_acceptor<Kind>(rank, key), key};
    std::vector<Watched> ranks{{place.address(), "r0"}, {place.address(), "r1"}};
    ranks[static_cast<std::size_t>(rank)].address = detector.address();
    std::string said;
    try {
      detector.begin(ranks, never_silent, user, deadline);
    } catch (const Error& error) {
      CHECK(error.rank() == 1 - rank);
      said = error.what();
    }
    CHECK_MESSAGE(said.find("connections to " + place.address() + " are refused: it has given up, or its process") !=
                      std::string::npos,
                  said);
    CHECK((said.find("TUTTI_SOCKET_IFNAME") != std::string::npos) == std::is_same_v<Kind, OverTcp>);
  }
}

}  // namespace
}  // namespace tutti::detail
