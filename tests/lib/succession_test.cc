// How ranks come to the centre of the watch: again, after the first connection came to nothing; and to its successor,
// before that knows that it is one.

#include <doctest/doctest.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "lib/watch/watch.h"
#include "transport/tcp/dial.h"

namespace tutti::detail {
namespace {

using namespace std::chrono_literals;

class Nobody final : public WatchUser {
 public:
  void suspected(const std::string&) noexcept override {}
  void failed(const Verdict&) noexcept override {}
  std::optional<Status> status(const Report&) noexcept override { return std::nullopt; }
};

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
    Watch first{0, "127.0.0.1", key};
    Watch second{1, "127.0.0.1", key};
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
  Watch first{0, "127.0.0.1", key};
  Watch second{1, "127.0.0.1", key};
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

}  // namespace
}  // namespace tutti::detail
