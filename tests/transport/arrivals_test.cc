// The order in which the connections of striped links come is chosen here: the sockets are pairs, and no thread accepts
// anything. The peer's ends show what has been closed.

#include "transport/tcp/arrivals.h"

#include <doctest/doctest.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

namespace tutti::transport::tcp {
namespace {

std::pair<net::Socket, net::Socket> make_pair() {
  std::array<int, 2> fds{};
  REQUIRE(::socketpair(AF_UNIX, net::stream, 0, fds.data()) == 0);
  return {net::Socket{fds[0]}, net::Socket{fds[1]}};
}

bool is_closed(const net::Socket& end) {
  std::byte byte{};
  return net::read_some(end, std::span{&byte, 1}).error == net::end_of_stream;
}

/// Brings connections of rank 1 on channel 7.
struct Peer {
  Arrivals arrivals = {};

  net::Socket bring(unsigned attempt, unsigned number, unsigned count, Channel channel = 7) {
    auto [here, there] = make_pair();
    arrivals.push({.from = 1,
                   .channel = channel,
                   .purpose = Purpose::link,
                   .stripe = {.attempt = static_cast<std::uint16_t>(attempt),
                              .number = static_cast<std::uint8_t>(number),
                              .count = static_cast<std::uint8_t>(count)}},
                  std::move(here));
    return std::move(there);
  }
  /// Attempts of the links that are there, with the number of their connections.
  std::vector<std::pair<int, int>> take() {
    std::vector<std::pair<int, int>> links;
    for (const Arrivals::Arrival& arrival : arrivals.take())
      links.emplace_back(arrival.attempt, static_cast<int>(arrival.sockets.size()));
    return links;
  }
};

using Links = std::vector<std::pair<int, int>>;

TEST_CASE("a link for credit does not disturb a striped link that is still arriving") {
  Peer peer;
  const net::Socket first = peer.bring(1, 0, 3);
  const net::Socket credit = peer.bring(2, 0, 1);
  CHECK(peer.take() == Links{{2, 1}});
  CHECK_FALSE(is_closed(first));
  const net::Socket third = peer.bring(1, 2, 3);
  const net::Socket abort = peer.bring(3, 0, 1);
  const net::Socket second = peer.bring(1, 1, 3);
  CHECK(peer.take() == Links{{3, 1}, {1, 3}});
}

TEST_CASE("the later attempt counts, whichever comes last") {
  for (const unsigned earlier : {5U, 0xffffU}) {
    const unsigned later = (earlier + 1) & 0xffffU;
    CAPTURE(earlier);
    Peer peer;
    const net::Socket given_up = peer.bring(earlier, 0, 2);
    const net::Socket first = peer.bring(later, 0, 2);
    CHECK(is_closed(given_up));
    CHECK(is_closed(peer.bring(earlier, 1, 2)));
    CHECK_FALSE(is_closed(first));
    const net::Socket second = peer.bring(later, 1, 2);
    CHECK(peer.take() == Links{{static_cast<int>(later), 2}});
  }
}

TEST_CASE("an attempt that has ended does not keep another one out, whatever its number") {
  Peer peer;
  peer.bring(9, 1, 2);  // and it is closed
  const net::Socket second = peer.bring(3, 1, 2);
  const net::Socket first = peer.bring(3, 0, 2);
  CHECK(peer.take() == Links{{3, 2}});
}

TEST_CASE("a connection that does not fit to the others of its attempt is closed") {
  Peer peer;
  const net::Socket first = peer.bring(1, 0, 2);
  CHECK(is_closed(peer.bring(1, 2, 3)));
  const net::Socket second = peer.bring(1, 1, 2);
  CHECK(peer.take() == Links{{1, 2}});
}

TEST_CASE("connections of links that were given up do not pile up") {
  Peer peer;
  constexpr Channel channels = 100;
  const net::Socket alive = peer.bring(1, 0, 2);
  std::vector<net::Socket> ends;
  for (Channel channel = 100; channel < 100 + channels; ++channel) {
    ends.push_back(peer.bring(2, 0, 2, channel));
    ::shutdown(ends.back().get(), SHUT_WR);
  }
  std::size_t kept = 0;
  for (const net::Socket& end : ends) kept += is_closed(end) ? 0U : 1U;
  CHECK(kept <= 16);
  const net::Socket other = peer.bring(1, 1, 2);
  CHECK(peer.take() == Links{{1, 2}});
}

TEST_CASE("a closed channel is answered on the first connection, also of a link that is still arriving") {
  Peer peer;
  const net::Socket first = peer.bring(1, 0, 2);
  peer.arrivals.close(7, {std::byte{42}});
  std::byte byte{};
  CHECK(net::read_some(first, std::span{&byte, 1}).bytes == 1);
  CHECK(byte == std::byte{42});
  CHECK(is_closed(first));
  CHECK(is_closed(peer.bring(1, 1, 2)));
  CHECK_FALSE(peer.arrivals.any());
  CHECK(peer.take().empty());
}

}  // namespace
}  // namespace tutti::transport::tcp
