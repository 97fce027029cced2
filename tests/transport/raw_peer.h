#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "lib/base/net/socket.h"
#include "lib/security/handshake.h"
#include "tests/support/address_kinds.h"

namespace tutti::transport::testing {

using tutti::testing::OverTcp;
using tutti::testing::OverUnix;

std::string text_of(std::span<const std::byte> bytes);

/// The other end of a connection: writes and reads plain bytes, blocking for 10 s at most.
class RawPeer {
 public:
  explicit RawPeer(net::Socket socket);
  /// Connects and writes.
  RawPeer(const std::string& address, std::string_view bytes);

  /// A peer that has gone is no failure.
  void write(std::string_view bytes);
  /// Exactly `count` bytes, or what came before the end.
  std::string read(std::size_t count);
  /// Without blocking: whether the stream has ended, or was reset. What came before is in heard().
  bool closed_by_peer();
  const std::string& heard() const { return heard_; }
  int descriptor() const { return socket_.get(); }
  /// Says hello and hears the answer, which it returns. The proof is what `handshake` sends next.
  std::string say_hello(Handshake& handshake);
  /// Moves the handshake's bytes until it is over, doing `meanwhile` whenever nothing moves. False: it failed.
  bool shake_hands(Handshake handshake, const std::function<void()>& meanwhile = {});
  /// Closes so that the peer gets a reset.
  void reset();

 private:
  net::Socket socket_;
  std::string heard_;
};

/// A port on loopback, or whatever `at` is.
class RawListener {
 public:
  enum class Start { now, later };
  explicit RawListener(Start start = Start::now, const net::Address& at = OverTcp::anywhere());
  explicit RawListener(const net::Address& at) : RawListener(Start::now, at) {}

  const std::string& address() const { return address_; }
  /// Until then connections are refused.
  void start();
  /// From now on at most one connection more is taken in; others must wait.
  void shorten_queue();
  RawPeer accept();

 private:
  net::Socket socket_;
  std::string address_;
};

}  // namespace tutti::transport::testing
