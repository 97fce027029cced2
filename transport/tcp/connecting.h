#pragma once

#include <poll.h>

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "transport/connector.h"
#include "transport/tcp/tcp_context.h"

namespace tutti::transport::tcp {

/// The connections of one link on their way.
class Connecting {
 public:
  /// Starts `hello.stripe.count` connections to the peer of `hello`, over the networks of both in turn. Calls `wake`
  /// when advance() has something to do.
  Connecting(TcpContext& context, std::span<const net::Address> addresses, Hello hello, std::function<void()> wake);
  ~Connecting() { take(); }
  Connecting(const Connecting&) = delete;
  Connecting& operator=(const Connecting&) = delete;

  /// 0: all are open. EAGAIN: not yet. Otherwise one has failed, as Connector says.
  int advance() noexcept;
  /// Whether the other side may have seen the beginning of a handshake.
  bool is_seen() const noexcept;
  /// Asks the reactor to wake this rank when advance() has something to do.
  void arm() noexcept;
  /// Simulates a broken network.
  void cut() noexcept;
  /// Until advance() has something to do, or `milliseconds`.
  void wait(int milliseconds) noexcept;
  /// The connections in their order, open or not. No others are left.
  std::vector<net::Socket> take() noexcept;

 private:
  struct One {
    Connector connector;
    bool heard = false;  ///< the peer has written or hung up
    bool done = false;

    bool waits() const noexcept { return done || (connector.events() == POLLIN && !heard); }
  };

  int advance(One& one) noexcept;

  TcpContext& context_;
  const std::function<void()> wake_;
  std::vector<One> all_;
};

}  // namespace tutti::transport::tcp
