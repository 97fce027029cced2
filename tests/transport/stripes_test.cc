// What the sending end of a striped link counts for each of its connections.

#include <doctest/doctest.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <vector>

#include "transport/tcp/acknowledgement_check.h"
#include "transport/tcp/frame_queue.h"

namespace tutti::transport::tcp {
namespace {

using namespace std::chrono_literals;

TEST_CASE("one send writes a limited part of a message, over one connection or several") {
  constexpr std::size_t most = std::size_t{1} << 20;
  const std::vector<std::byte> payload(4 * most);
  for (const std::size_t connections : {std::size_t{1}, std::size_t{Stripe::most}}) {
    CAPTURE(connections);
    std::vector<net::Socket> here;
    std::vector<net::Socket> there;
    for (std::size_t i = 0; i < connections; ++i) {
      std::array<int, 2> fds{};
      REQUIRE(::socketpair(AF_UNIX, net::stream, 0, fds.data()) == 0);
      here.emplace_back(fds[0]);
      there.emplace_back(fds[1]);
      net::set_option(here.back(), SOL_SOCKET, SO_SNDBUF, 1 << 20);  // the system may grant less, but several strips
    }
    FrameQueue queue;
    queue.deal_to(connections);
    FrameQueue::Message message{{}, payload, 0};
    const net::Moved moved = queue.write_first(here, message);
    CHECK(moved.error == 0);
    CHECK(moved.bytes <= most);
    if (connections > 1) CHECK(moved.bytes == most);  // so it was the limit that ended it
    CHECK_FALSE(queue.empty());
    CHECK(queue.has_for(0));
  }
}

TEST_CASE("silence is counted for each connection by itself") {
  AcknowledgementCheck check;
  const Clock::time_point begin = Clock::time_point{} + 1h;
  const auto silence = [&](std::uint32_t waiting, Clock::time_point now) { return check.silence(waiting, now, 1s); };
  CHECK(silence(0b01, begin) == 0s);
  CHECK(silence(0b01, begin + 1s) == 1s);
  CHECK(silence(0b11, begin + 2s) == 2s);
  CHECK(silence(0b10, begin + 3s) == 1s);  // the first has been answered
  CHECK(silence(0b11, begin + 4s) == 2s);
  CHECK(silence(0b01, begin + 5s) == 1s);
  CHECK(silence(0, begin + 6s) == 0s);
  CHECK(silence(0b01, begin + 7s) == 0s);
  check.reset();
  CHECK(silence(0b01, begin + 9s) == 0s);
}

TEST_CASE("the time in which a rank does not look is no silence") {
  AcknowledgementCheck check;
  const Clock::time_point begin = Clock::time_point{} + 1h;
  CHECK(check.silence(0b1, begin, 200ms) == 0s);
  CHECK(check.silence(0b1, begin + 300ms, 200ms) == 300ms);
  CHECK(check.silence(0b1, begin + 60s, 200ms) == 0s);
  CHECK(check.silence(0b1, begin + 60s + 800ms, 200ms) == 800ms);  // late, as on a busy host
}

}  // namespace
}  // namespace tutti::transport::tcp
