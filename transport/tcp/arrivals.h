#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <list>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "lib/base/net/socket.h"
#include "lib/security/handshake.h"
#include "transport/closed_channels.h"
#include "transport/transport.h"

namespace tutti::transport::tcp {

/// Connections that the acceptor's thread hands over to the owner of the engine, all those of a link together. A
/// connection for a closed channel is answered by the acceptor, since the owner may never come back.
class Arrivals {
 public:
  /// The connections of a link that have come.
  struct Arrival {
    int from;
    Channel channel;
    std::uint16_t attempt;
    std::size_t missing;
    std::vector<net::Socket> sockets;
  };

  void push(const Hello& hello, net::Socket socket) {
    const std::lock_guard lock{mutex_};
    if (shut_) return;
    if (const auto* const closing_message = closed_.find(hello.channel)) {
      answer(hello.stripe.number, socket, *closing_message);
      return;
    }
    const auto arrival = begun_for(hello);
    net::Socket& place = arrival->sockets[hello.stripe.number];
    if (!place) --arrival->missing;
    place = std::move(socket);
    if (arrival->missing > 0) return;
    waiting_.push_back(std::move(*arrival));
    begun_.erase(arrival);
    any_.store(true, std::memory_order_release);
  }
  bool any() const { return any_.load(std::memory_order_acquire); }
  std::vector<Arrival> take() {
    const std::lock_guard lock{mutex_};
    any_.store(false, std::memory_order_relaxed);
    return std::exchange(waiting_, {});
  }

  void open(Channel channel) {
    const std::lock_guard lock{mutex_};
    closed_.reopen(channel);
  }
  /// Closes the channel, and returns the answer to connections for it: `closing_message`, or the earlier answer if it
  /// is closed already. The answer is valid until the next call.
  std::span<const std::byte> close(Channel channel, std::vector<std::byte>&& closing_message) {
    const std::lock_guard lock{mutex_};
    const std::vector<std::byte>& words = closed_.close(channel, std::move(closing_message));
    std::erase_if(begun_, [&](const Arrival& arrival) {
      if (arrival.channel == channel && arrival.sockets.front()) answer(0, arrival.sockets.front(), words);
      return arrival.channel == channel;
    });
    return words;
  }

  /// Closes connections that come from now on.
  void shut() {
    const std::lock_guard lock{mutex_};
    shut_ = true;
    waiting_.clear();
    begun_.clear();
  }

  std::atomic<std::uint64_t> looked{0};  ///< the number of the last look at the acceptor that is done

 private:
  /// The first connection carries the first bytes of either direction.
  static void answer(std::size_t number, const net::Socket& socket, std::span<const std::byte> closing_message) {
    if (number == 0) net::write_some(socket, closing_message);
  }

  /// The link of this connection, some of whose others may have come. A peer opens one at a time on a channel, so what
  /// has come of an earlier attempt is closed.
  std::list<Arrival>::iterator begun_for(const Hello& hello) {
    const auto same = std::ranges::find_if(
        begun_, [&](const Arrival& arrival) { return arrival.from == hello.from && arrival.channel == hello.channel; });
    if (same != begun_.end() && same->attempt == hello.stripe.attempt && same->sockets.size() == hello.stripe.count)
      return same;
    if (same != begun_.end()) begun_.erase(same);
    const std::size_t count = hello.stripe.count;
    begun_.push_back({hello.from, hello.channel, hello.stripe.attempt, count, std::vector<net::Socket>(count)});
    return std::prev(begun_.end());
  }

  std::atomic<bool> any_{false};  ///< so that a pass without arrivals need not lock
  std::mutex mutex_;
  std::vector<Arrival> waiting_;
  std::list<Arrival> begun_;  ///< whose other connections have not come
  bool shut_ = false;
  ClosedChannels<std::vector<std::byte>> closed_;
};

}  // namespace tutti::transport::tcp
