// How the connections of a failure detector end.

#include "lib/failure/connections.h"

#include <doctest/doctest.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "lib/failure/control_message.h"

namespace tutti::detail {
namespace {

using namespace std::chrono_literals;

/// Both ends of a connection.
struct Line {
  Line() {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) == 0);
    one = Descriptor{ends[0]};
    other = Descriptor{ends[1]};
  }
  Descriptor one;
  Descriptor other;
};

const ControlMessage leave{.kind = ControlMessage::Kind::leave};

TEST_CASE("a connection on which there is something to read ends after the last message, and is not reset") {
  const Secret key = Secret::random();
  Line line;
  Connections connections{0, key, {}};
  connections.add(1, ControlConnection{std::move(line.one)});
  const std::string beat = encode({.kind = ControlMessage::Kind::beat});
  REQUIRE(::send(line.other.get(), beat.data(), beat.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(beat.size()));
  connections.close(leave, Connections::Clock::now() + 50ms);
  CHECK(connections.size() == 0);
  std::array<char, 100> bytes{};
  const std::string last = encode(leave);
  REQUIRE(::recv(line.other.get(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(last.size()));
  CHECK(std::string(bytes.data(), last.size()) == last);
  CHECK(::recv(line.other.get(), bytes.data(), bytes.size(), 0) == 0);
}

TEST_CASE("closing does not wait for its deadline where the others have closed, too") {
  const Secret key = Secret::random();
  Line line;
  Connections connections{0, key, {}};
  connections.add(1, ControlConnection{std::move(line.one)});
  line.other.reset();
  const auto start = Connections::Clock::now();
  connections.close(leave, start + 20s);
  CHECK(Connections::Clock::now() - start < 10s);
}

TEST_CASE("closing does not wait for connections that have ended before") {
  const Secret key = Secret::random();
  Line line;
  ControlConnection ended{std::move(line.one)};
  line.other.reset();
  std::vector<ControlMessage> none;
  ended.read(none);
  REQUIRE(ended.ended());
  Connections connections{0, key, {}};
  connections.add(1, std::move(ended));
  const auto start = Connections::Clock::now();
  connections.close(leave, start + 20s);
  CHECK(Connections::Clock::now() - start < 10s);
}

}  // namespace
}  // namespace tutti::detail
