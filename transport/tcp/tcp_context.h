#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/base/net/socket.h"
#include "lib/security/secret.h"
#include "lib/security/tls_proxy.h"
#include "transport/hello.h"
#include "transport/reactor.h"
#include "transport/stream_socket.h"
#include "transport/transport.h"

namespace tutti::transport::tcp {

class InLink;
class OutLink;

/// How certain a failure is. The end of a stream is often only an echo: the consequence of a failure that another
/// message explains.
enum class Certainty { sure, echo };

/// What the links of one transport share. Links add themselves to the lists, and the transport walks through them.
struct TcpContext {
  struct Loss {
    Link* link;
    Error reason;
    Certainty certainty;
    std::uint64_t look = 0;  ///< an echo is reported after this look at the acceptor; 0: not asked for yet
  };

  int rank;
  Reactor& reactor;
  Secret key;
  std::shared_ptr<TlsProxies> tls_proxies;  ///< null: connections are not encrypted
  std::string congestion;
  std::size_t connections;                  ///< of each link that this rank opens
  std::vector<net::Address> own_addresses;  ///< from which its connections start, if links have several; empty: one
  std::chrono::milliseconds connect_timeout;
  std::chrono::milliseconds lost_after;  ///< half the time without acknowledgements after which a connection is lost
  bool cut = false;                      ///< an injected fault: no more connections can be made
  std::uint16_t attempts = 0;            ///< to connect, of all links; see Stripe
  Sink* sink = nullptr;
  std::vector<std::string> addresses{};  ///< by rank: one address, or several with commas between
  std::vector<bool> within_host{};       ///< by rank: TcpTransport::set_within_host()

  std::span<std::byte> chunk{};          ///< where views are read to; used within one call only
  std::vector<OutLink*> busy{};          ///< links that have something to send or read, or are connecting
  std::vector<InLink*> hot{};            ///< links that may have something to read, which are tried in every pass
  int messages_per_acknowledgement = 1;  ///< of a rank that waits; see InLink::acknowledge()
  bool digesting = false;                ///< the messages of one read are being handed to the sink
  std::vector<OutLink*> replies{};       ///< links with short messages of that time, which are sent together
  std::vector<Loss> losses{};            ///< links that have failed, of which the sink has not been told
  std::vector<std::unique_ptr<InLink>> in_links{};

  /// `link` has failed. progress() tells the sink.
  void lose(Link& link, Certainty certainty, const Error& reason);
  /// A live link from `peer` on whose connection this rank does not send yet; null: there is none.
  InLink* unshared(int peer, Channel channel) const;
  /// "rank 2 (tcp, 10.0.0.1:4242)"
  std::string name_of(int peer) const;
  /// Empty if the rank cannot be reached.
  const std::string& address_of(int peer) const;
  bool is_within_host(int peer) const;
  /// Where the peer accepts connections; empty: it cannot be reached.
  std::vector<net::Address> addresses_of(int peer) const;
  /// How many networks connections to a peer with these addresses may use: the first ones of both, in the same order.
  std::size_t places_shared_with(std::span<const net::Address> theirs) const;
  /// Why the connections of a link have ended of which `error` says that they have. Where they are encrypted, the link
  /// only sees the end of a stream.
  int reason_of_end(std::span<const net::Socket> sockets, int error) const;
  /// How a connection to the peer at its address `place` is made.
  Path path_to(int peer, std::size_t place) const;
};

/// Other descriptors of the same sockets; none, with errno, if the system has not that many.
std::vector<net::Socket> duplicates(const std::vector<net::Socket>& sockets) noexcept;

}  // namespace tutti::transport::tcp
