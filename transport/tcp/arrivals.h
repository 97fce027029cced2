#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
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

  void push(const Hello& hello, net::Socket socket);
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
  std::span<const std::byte> close(Channel channel, std::vector<std::byte>&& closing_message);

  /// Closes connections that come from now on.
  void shut() {
    const std::lock_guard lock{mutex_};
    shut_ = true;
    waiting_.clear();
    begun_.clear();
  }

  std::atomic<std::uint64_t> looked{0};  ///< the number of the last look at the acceptor that is done

 private:
  std::list<Arrival>::iterator begun_for(const Hello& hello);
  void forget_ended();

  std::atomic<bool> any_{false};  ///< so that a pass without arrivals need not lock
  std::mutex mutex_;
  std::vector<Arrival> waiting_;
  std::list<Arrival> begun_;  ///< whose other connections have not come; at most one of a peer on a channel
  std::size_t look_at_ = 16;  ///< when there are that many of them, those that have ended are looked for
  bool shut_ = false;
  ClosedChannels<std::vector<std::byte>> closed_;
};

}  // namespace tutti::transport::tcp
