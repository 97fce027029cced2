#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/security/secret.h"
#include "lib/security/tls_proxy.h"
#include "transport/hello.h"
#include "transport/reactor.h"
#include "transport/transport.h"

namespace tutti::transport::tcp {

class InLink;
class OutLink;

/// How sure a failure is. The end of a stream is often only the echo of something that another message explains.
enum class Certainty { sure, echo };

/// What the links of one transport share. Links put themselves on the lists; the transport walks them.
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
  std::chrono::milliseconds connect_timeout;
  std::chrono::milliseconds lost_after;  ///< of silence on a connection
  bool cut = false;                      ///< connections can be made no more
  Sink* sink = nullptr;
  std::vector<std::string> addresses{};

  std::span<std::byte> chunk{};     ///< where views are read to; used within one call only
  std::vector<OutLink*> busy{};     ///< have something to send, to connect or to read
  std::vector<InLink*> hot{};       ///< may have something to read: tried in every pass
  bool digesting = false;           ///< what one read has brought is being handed to the sink
  std::vector<OutLink*> replies{};  ///< have short messages that were sent meanwhile: they go out together
  std::vector<Loss> losses{};       ///< links that failed and whose user does not know yet
  std::vector<std::unique_ptr<InLink>> in_links{};

  /// `link` is dead from now on; its user hears of it from progress().
  void lose(Link& link, Certainty certainty, const Error& reason);
  /// A live link from `peer` on whose connection nobody writes yet, or null.
  InLink* unshared(int peer, Channel channel) const;
  /// "rank 2 (tcp, 10.0.0.1:4242)"
  std::string name_of(int peer) const;
  /// Empty for a rank that cannot be reached.
  const std::string& address_of(int peer) const;
};

}  // namespace tutti::transport::tcp
