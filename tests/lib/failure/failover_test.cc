// How ranks come to the centre of the watch: again, after the first connection came to nothing; and to its successor,
// before that knows that it is one. And what that finds out about those who do not come.

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
#include <utility>
#include <vector>

#include "lib/failure/detector.h"
#include "transport/tcp/acceptor.h"
#include "transport/tcp/connector.h"

namespace tutti::detail {
namespace {

using namespace std::chrono_literals;

class Nobody final : public WatchUser {
 public:
  void suspected(const std::string&) noexcept override {}
  void failed(const Verdict&) noexcept override {}
  void departed(const std::vector<int>&) noexcept override {}
  std::optional<Status> status(const Report&) noexcept override { return std::nullopt; }
};

/// Remembers what it was told.
class Listener final : public WatchUser {
 public:
  void suspected(const std::string&) noexcept override {}
  void failed(const Verdict& verdict) noexcept override {
    const std::lock_guard lock{mutex_};
    losses_.emplace_back(verdict.culprit, Watch::Clock::now());
    news_.notify_all();
  }
  void departed(const std::vector<int>& ranks) noexcept override {
    const std::lock_guard lock{mutex_};
    departed_.insert(departed_.end(), ranks.begin(), ranks.end());
    news_.notify_all();
  }
  std::optional<Status> status(const Report&) noexcept override { return std::nullopt; }

  /// When the loss of `rank` was told; nothing: it was not, until `deadline`.
  std::optional<Watch::Clock::time_point> loss_of(int rank, Watch::Clock::time_point deadline) {
    std::unique_lock lock{mutex_};
    const auto find = [&] {
      return std::ranges::find(losses_, rank, &std::pair<int, Watch::Clock::time_point>::first);
    };
    if (!news_.wait_until(lock, deadline, [&] { return find() != losses_.end(); })) return std::nullopt;
    return find()->second;
  }
  bool hears_that_departed(int rank, Watch::Clock::time_point deadline) {
    std::unique_lock lock{mutex_};
    return news_.wait_until(lock, deadline, [&] { return std::ranges::count(departed_, rank) > 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable news_;
  std::vector<std::pair<int, Watch::Clock::time_point>> losses_;
  std::vector<int> departed_;
};

/// An address of this host's, of which nobody else gets hold: where nobody listens, or nobody answers.
class Place {
 public:
  explicit Place(bool listens) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const auto anywhere = *transport::tcp::parse_address("127.0.0.1", 0);
    REQUIRE(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&anywhere.storage), anywhere.size) == 0);
    if (listens) REQUIRE(::listen(socket_.get(), 16) == 0);
  }
  std::string address() const { return transport::tcp::local_address(socket_); }

 private:
  Descriptor socket_;
};

std::shared_ptr<transport::tcp::Door> open_door(int rank, const Secret& key) {
  return std::make_shared<transport::tcp::Door>(*transport::tcp::parse_address("127.0.0.1", 0),
                                                transport::tcp::Credentials{key, rank});
}

/// A centre that lets everybody begin and does not say a word from then on.
class SilentCentre {
 public:
  explicit SilentCentre(const Secret& key, int rank = 0)
      : door_(*transport::tcp::parse_address("127.0.0.1", 0), {key, rank}) {
    door_.serve(Purpose::watch, [this](const Hello&, transport::tcp::Socket socket) {
      const std::lock_guard lock{mutex_};
      lines_.emplace_back(std::move(socket)).send({.kind = Letter::Kind::ready});
      came_.notify_all();
    });
  }
  std::string address() const { return door_.address(); }
  /// The next who came.
  Line take(Watch::Clock::time_point deadline) {
    std::unique_lock lock{mutex_};
    REQUIRE(came_.wait_until(lock, deadline, [this] { return !lines_.empty(); }));
    Line line = std::move(lines_.front());
    lines_.pop_front();
    return line;
  }

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<Line> lines_;
  transport::tcp::Door door_;  // last: it calls until it is gone
};

/// Long enough that nothing in a test is known by silence.
constexpr WatchSettings never_silent{.beat = 20ms, .lost = 1h};

/// Waits for so many letters of a kind.
bool hear(Line& line, Letter::Kind kind, std::ptrdiff_t count, Watch::Clock::time_point deadline) {
  while (count > 0 && !line.ended() && Watch::Clock::now() < deadline) {
    pollfd query{.fd = line.fd(), .events = POLLIN, .revents = 0};
    ::poll(&query, 1, 100);
    std::vector<Letter> letters;
    line.read(letters);
    count -= std::ranges::count(letters, kind, &Letter::kind);
  }
  return count <= 0;
}

Line dial(int from, int to, const std::string& address, const Secret& key, Watch::Clock::time_point deadline) {
  const Hello hello{.from = from, .to = to, .channel = 0, .purpose = Purpose::watch};
  return Line{transport::tcp::connect_authenticated(address, key, hello, deadline)};
}

TEST_CASE("a rank that gave up waiting for the last proof comes again, and nobody calls it lost") {
  for (const bool closed : {false, true}) {
    const Secret key = Secret::random();
    const auto deadline = Watch::Clock::now() + 20s;
    Nobody user;
    Watch first{0, open_door(0, key), key};
    Watch second{1, open_door(1, key), key};
    const std::vector<Watched> ranks{{first.address(), "r0"}, {second.address(), "r1"}};
    const WatchSettings settings{.beat = 20ms};
    std::optional<Line> in_vain = dial(1, 0, first.address(), key, deadline);
    if (closed) in_vain.reset();
    std::jthread centre{[&] { CHECK_NOTHROW(first.begin(ranks, settings, user, deadline)); }};
    CHECK_NOTHROW(second.begin(ranks, settings, user, deadline));
    centre.join();
    // Whoever comes as a rank that has spoken is shown out, whatever he says.
    Line stranger = dial(1, 0, first.address(), key, deadline);
    stranger.send({.kind = Letter::Kind::beat});
    CHECK(!hear(stranger, Letter::Kind::ready, 1, deadline));
    CHECK(stranger.ended());
    CHECK(first.centre() == 0);
    CHECK(second.centre() == 0);
  }
}

TEST_CASE("what is said to a rank before it knows that it is the centre is heard once it does") {
  const Secret key = Secret::random();
  const auto deadline = Watch::Clock::now() + 20s;
  Nobody user;
  Watch first{0, open_door(0, key), key};
  Watch second{1, open_door(1, key), key};
  const std::vector<Watched> ranks{{first.address(), "r0"}, {second.address(), "r1"}, {"127.0.0.1:9", "r2"}};
  const WatchSettings settings{.beat = 20ms};
  std::jthread other{[&] { second.begin(ranks, settings, user, deadline); }};
  std::jthread one{[&] { first.begin(ranks, settings, user, deadline); }};
  const auto call = [&](int to) {  // as rank 2
    Line line = dial(2, to, ranks[static_cast<std::size_t>(to)].address, key, deadline);
    line.send({.kind = Letter::Kind::beat});
    return line;
  };
  const Line to_first = call(0);
  one.join();
  other.join();

  // Rank 2 knows already that rank 0 is gone.
  Line third = call(1);
  const Report report{.group = 8, .reporter = 2, .call = {}, .members = {0, 1, 2}};
  third.send({.kind = Letter::Kind::reunion, .report = report});
  // Rank 1 looks at its lines before each beat: after the second one it has read the letter.
  REQUIRE(hear(third, Letter::Kind::beat, 2, deadline));
  CHECK(second.centre() == 0);
  first.cut();

  const Reunion reunion = second.reunite(report, deadline);
  CHECK(reunion.members == std::vector<int>{1, 2});
  CHECK(hear(third, Letter::Kind::decision, 1, deadline));
}

/// Ranks 0 and 2, and ranks 1 and 3, which the test plays: nobody listens at their addresses.
struct Four {
  Four() {
    const std::vector<Watched> ranks{
        {first.address(), "r0"}, {places[0].address(), "r1"}, {third.address(), "r2"}, {places[1].address(), "r3"}};
    std::jthread other{[&] { third.begin(ranks, never_silent, on_third, deadline); }};
    std::jthread one{[&] { first.begin(ranks, never_silent, on_first, deadline); }};
    for (const int rank : {1, 3})
      played.emplace_back(dial(rank, 0, ranks[0].address, key, deadline)).send({.kind = Letter::Kind::beat});
  }
  /// In the eyes of rank 2.
  std::vector<int> survivors() {
    return third.reunite({.group = 8, .reporter = 2, .call = {}, .members = {0, 1, 2, 3}}, deadline).members;
  }

  const Secret key = Secret::random();
  const Watch::Clock::time_point deadline = Watch::Clock::now() + 20s;
  Listener on_first;
  Listener on_third;
  Watch first{0, open_door(0, key), key};
  Watch third{2, open_door(2, key), key};
  std::array<Place, 2> places{Place{false}, Place{false}};
  std::deque<Line> played;
};

TEST_CASE("whoever died together with the centre is missed at once, its successor and others") {
  Four ranks;
  ranks.first.cut();
  for (const int rank : {0, 1, 3}) CHECK(ranks.on_third.loss_of(rank, ranks.deadline));
  CHECK(ranks.survivors() == std::vector<int>{2});
}

TEST_CASE("ranks that went when the centre had left are told of, but nobody says that they died") {
  Four ranks;
  ranks.first.stop();
  for (const int rank : {0, 1, 3}) CHECK(ranks.on_third.hears_that_departed(rank, ranks.deadline));
  CHECK(ranks.survivors() == std::vector<int>{2});
  for (const int rank : {0, 1, 3}) CHECK(!ranks.on_third.loss_of(rank, Watch::Clock::now()));
}

TEST_CASE("a rank that left on purpose is not taken for dead when the centre dies afterwards") {
  Four ranks;
  ranks.played[1].send({.kind = Letter::Kind::leave});
  CHECK(ranks.on_third.hears_that_departed(3, ranks.deadline));
  ranks.first.cut();
  for (const int rank : {0, 1}) CHECK(ranks.on_third.loss_of(rank, ranks.deadline));
  CHECK(ranks.survivors() == std::vector<int>{2});
  CHECK(!ranks.on_third.loss_of(3, Watch::Clock::now()));
}

TEST_CASE("a rank that dies while the others shrink is not waited for, nor is a centre") {
  Four ranks;
  const Report report{.group = 8, .call = {}, .members = {0, 1, 2, 3}};
  std::vector<int> survivors;
  std::jthread survivor{[&] { survivors = ranks.survivors(); }};
  ranks.played[0].send({.kind = Letter::Kind::reunion, .report = report});
  // Rank 0 tells who is still missing.
  REQUIRE(hear(ranks.played[0], Letter::Kind::decision, 1, ranks.deadline));
  ranks.played.pop_back();
  CHECK(ranks.on_first.loss_of(3, ranks.deadline));
  ranks.first.cut();
  survivor.join();
  CHECK(survivors == std::vector<int>{2});
}

TEST_CASE("ranks that are as silent as the centre are given up together with it, however many they are") {
  constexpr auto lost = 2s;
  const Secret key = Secret::random();
  const auto deadline = Watch::Clock::now() + 30s;
  SilentCentre silent{key};
  std::deque<Place> places;  // of ranks 1 to 3, which are stopped, and 4, which has died
  std::vector<Watched> ranks{{silent.address(), "r0"}};
  for (int rank = 1; rank <= 4; ++rank)
    ranks.push_back({places.emplace_back(rank < 4).address(), "r" + std::to_string(rank)});
  Listener on_fifth;
  Listener on_sixth;
  Watch fifth{5, open_door(5, key), key};
  Watch sixth{6, open_door(6, key), key};
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

TEST_CASE("a shrink that begins while there is no centre is announced to the next one once") {
  const Secret key = Secret::random();
  const auto deadline = Watch::Clock::now() + 20s;
  Nobody user;
  SilentCentre first{key};
  SilentCentre second{key, 1};
  Watch third{2, open_door(2, key), key};
  third.begin({{first.address(), "r0"}, {second.address(), "r1"}, {third.address(), "r2"}}, never_silent, user,
              deadline);
  first.take(deadline).send({.kind = Letter::Kind::leave});  // and is gone
  while (third.centre() != 1 && Watch::Clock::now() < deadline) std::this_thread::yield();
  std::jthread caller{[&] {
    const Report report{.group = 8, .call = {}, .members = {1, 2}};
    CHECK_NOTHROW(third.reunite(report, deadline));
  }};
  Line line = second.take(deadline);
  std::ptrdiff_t reunions = 0;
  for (std::ptrdiff_t beats = 0; beats < 3 && !line.ended() && Watch::Clock::now() < deadline;) {
    pollfd query{.fd = line.fd(), .events = POLLIN, .revents = 0};
    ::poll(&query, 1, 100);
    std::vector<Letter> letters;
    line.read(letters);
    reunions += std::ranges::count(letters, Letter::Kind::reunion, &Letter::kind);
    if (reunions > 0) beats += std::ranges::count(letters, Letter::Kind::beat, &Letter::kind);
  }
  CHECK(reunions == 1);
  line.send(
      {.kind = Letter::Kind::decision, .number = 10, .report = {.group = 8, .call = {}, .members = {}}, .ranks = {2}});
}

TEST_CASE("a decision about survivors stands although the centre that made it leaves at once") {
  for (int repetition = 0; repetition < 20; ++repetition) {  // the caller must not have woken when the centre leaves
    const Secret key = Secret::random();
    const auto deadline = Watch::Clock::now() + 20s;
    Nobody user;
    SilentCentre first{key};
    Watch second{1, open_door(1, key), key};
    second.begin({{first.address(), "r0"}, {second.address(), "r1"}}, never_silent, user, deadline);
    Line line = first.take(deadline);
    std::vector<int> survivors;
    std::jthread caller{[&] {
      survivors = second.reunite({.group = 8, .call = {}, .members = {0, 1}}, deadline).members;
    }};
    REQUIRE(hear(line, Letter::Kind::reunion, 1, deadline));
    line.send({.kind = Letter::Kind::decision,
               .number = 10,
               .report = {.group = 8, .call = {}, .members = {}},
               .ranks = {0, 1}});
    line.send({.kind = Letter::Kind::leave});
    { const Line gone = std::move(line); }
    caller.join();
    CHECK(survivors == std::vector{0, 1});
  }
}

TEST_CASE("all ranks are told which one went before everybody was there") {
  const Secret key = Secret::random();
  const auto deadline = Watch::Clock::now() + 20s;
  Nobody user;
  Watch first{0, open_door(0, key), key};
  Watch second{1, open_door(1, key), key};
  const Place place{false};
  const std::vector<Watched> ranks{{first.address(), "r0"}, {second.address(), "r1"}, {place.address(), "r2"}};
  const auto culprit_of = [&](Watch& watch) {
    try {
      watch.begin(ranks, never_silent, user, deadline);
    } catch (const Error& error) {
      CHECK_MESSAGE(error.code() == ErrorCode::peer_lost, error.what());
      return error.rank();
    }
    return -1;
  };
  // Rank 1 comes when rank 0 knows already.
  std::optional<Line> third = dial(2, 0, ranks[0].address, key, deadline);
  third->send({.kind = Letter::Kind::beat});
  int culprit = -1;
  std::jthread one{[&] { culprit = culprit_of(first); }};
  REQUIRE(hear(*third, Letter::Kind::beat, 1, deadline));
  third.reset();
  CHECK(culprit_of(second) == 2);
  one.join();
  CHECK(culprit == 2);
}

}  // namespace
}  // namespace tutti::detail
