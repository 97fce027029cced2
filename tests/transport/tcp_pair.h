#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "lib/security/handshake.h"
#include "tests/transport/mesh.h"
#include "tests/transport/raw_peer.h"
#include "transport/tcp/tcp_transport.h"

namespace tutti::transport::testing {

/// The secret of the job in tests of TCP, and that of another one.
extern const Secret key;
extern const Secret other_key;

/// A rank with nothing but TCP; the key is the job's unless `options` has one.
/// It listens there.
std::unique_ptr<Node> make_node(int rank, TcpOptions options = {}, const net::Address& at = OverTcp::anywhere());

/// Rank 0 sends, rank 1 receives; both are driven by one thread.
struct Pair {
  explicit Pair(const TcpOptions& options = {}, const net::Address& at = OverTcp::anywhere());
  explicit Pair(const net::Address& at) : Pair({}, at) {}

  bool run_until(const std::function<bool()>& done);
  /// One message from 0 to 1, checked.
  bool exchange(std::size_t size, std::uint64_t seed);
  std::size_t unproved() const { return static_cast<TcpTransport&>(*receiver->transport).unproved(); }
  std::string acceptor() const { return receiver->transport->address(); }

  std::unique_ptr<Node> sender;
  std::unique_ptr<Node> receiver;
};

/// Rank 1, whose peer, rank 0, is written out in bytes.
struct Lonely {
  explicit Lonely(const TcpOptions& options = {}, const net::Address& at = OverTcp::anywhere());
  explicit Lonely(const net::Address& at) : Lonely({}, at) {}

  bool run_until(const std::function<bool()>& done);
  /// Without a word.
  RawPeer connect() { return RawPeer(node->transport->address(), ""); }
  /// As rank 0, proved, with these bytes behind.
  RawPeer enter(std::string_view bytes, Channel channel = 1);

  std::unique_ptr<Node> node;
};

/// The first bytes of a connection.
std::string first_bytes(const Hello& hello = {.from = 0, .to = 1, .channel = 1}, const Secret& with = key);

/// Somebody who listens as rank 1 and lets in a rank that is driven meanwhile.
RawPeer let_in(RawListener& listener, Node& node);

}  // namespace tutti::transport::testing
