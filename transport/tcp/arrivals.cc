#include "transport/tcp/arrivals.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

namespace tutti::transport::tcp {
namespace {

/// The first connection carries the first bytes of either direction.
void answer(std::size_t number, const net::Socket& socket, std::span<const std::byte> closing_message) {
  if (number == 0) net::write_some(socket, closing_message);
}

/// Attempts are counted in 16 bits, round and round.
bool is_before(std::uint16_t one, std::uint16_t other) {
  return static_cast<std::int16_t>(static_cast<std::uint16_t>(one - other)) < 0;
}

/// A peer closes none of its connections while others of the link are on their way, unless it has given up.
bool has_ended(const net::Socket& socket) {
  if (!socket) return false;
  std::byte next{};
  const ssize_t got = ::recv(socket.get(), &next, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && !net::is_busy(errno));
}

bool is_given_up(const Arrivals::Arrival& arrival) { return std::ranges::any_of(arrival.sockets, has_ended); }

}  // namespace

void Arrivals::push(const Hello& hello, net::Socket socket) {
  const std::lock_guard lock{mutex_};
  if (shut_) return;
  if (const auto* const closing_message = closed_.find(hello.channel)) {
    answer(hello.stripe.number, socket, *closing_message);
    return;
  }
  const auto arrival = begun_for(hello);
  if (arrival == begun_.end()) return;
  net::Socket& place = arrival->sockets[hello.stripe.number];
  if (!place) --arrival->missing;
  place = std::move(socket);
  if (arrival->missing > 0) return;
  waiting_.push_back(std::move(*arrival));
  begun_.erase(arrival);
  any_.store(true, std::memory_order_release);
}

std::span<const std::byte> Arrivals::close(Channel channel, std::vector<std::byte>&& closing_message) {
  const std::lock_guard lock{mutex_};
  const std::vector<std::byte>& words = closed_.close(channel, std::move(closing_message));
  std::erase_if(begun_, [&](const Arrival& arrival) {
    if (arrival.channel == channel && arrival.sockets.front()) answer(0, arrival.sockets.front(), words);
    return arrival.channel == channel;
  });
  return words;
}

/// The link of this connection, some of whose others may have come; the end if the peer has given up that attempt. A
/// peer opens one link of several connections at a time on a channel, and meanwhile any number of links of one (for
/// credit and aborts), so only the former take the places of earlier attempts.
std::list<Arrivals::Arrival>::iterator Arrivals::begun_for(const Hello& hello) {
  const std::size_t count = hello.stripe.count;
  if (count > 1) {
    const auto same = std::ranges::find_if(
        begun_, [&](const Arrival& arrival) { return arrival.from == hello.from && arrival.channel == hello.channel; });
    if (same != begun_.end()) {
      if (same->attempt == hello.stripe.attempt) return same->sockets.size() == count ? same : begun_.end();
      if (is_before(hello.stripe.attempt, same->attempt) && !is_given_up(*same)) return begun_.end();
      begun_.erase(same);
    }
    forget_ended();
  }
  begun_.push_back({hello.from, hello.channel, hello.stripe.attempt, count, std::vector<net::Socket>(count)});
  return std::prev(begun_.end());
}

/// Looks rarely enough that it costs each link little, and often enough that most of those kept are on their way.
void Arrivals::forget_ended() {
  if (begun_.size() < look_at_) return;
  std::erase_if(begun_, is_given_up);
  look_at_ = std::max<std::size_t>(16, 2 * begun_.size());
}

}  // namespace tutti::transport::tcp
