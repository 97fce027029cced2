#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "lib/base/descriptor.h"
#include "lib/observe/log.h"
#include "lib/security/secret.h"
#include "lib/security/tls_proxy.h"
#include "transport/reactor.h"
#include "transport/transport.h"

namespace tutti::transport {

class Acceptor;
namespace tcp {
class Arrivals;
class InLink;
class OutLink;
struct TcpContext;
}  // namespace tcp

struct TcpOptions {
  /// Lets in the links of peers, with the same key, and connections for other purposes; null: the transport makes an
  /// acceptor of its own.
  std::shared_ptr<Acceptor> acceptor = {};
  /// The numeric address of the transport's own acceptor, at which peers can reach this rank; the kernel chooses the
  /// port.
  std::string bind_address = "127.0.0.1";
  /// Equal on all ranks of the job, and unknown outside.
  Secret key = {};
  /// Encrypts all links; the same on all ranks. Null: they are not encrypted.
  std::shared_ptr<TlsProxies> tls_proxies = {};
  /// "cubic", "bbr" ... for every connection, where the system allows it. Empty: the system's choice; on loopback cubic
  /// or reno.
  std::string congestion = {};
  /// Connections of each link that this rank opens, from 1 to Stripe::most. The peer that opens the link in the other
  /// direction first decides for both.
  std::size_t connections = 1;
  /// Numeric addresses of this host from which these connections start, in turn; empty: the kernel chooses.
  std::vector<std::string> own_addresses = {};
  /// Is told when connections cannot be accepted.
  Log log{};
  /// How long a link tries to reach a peer that refuses connections.
  std::chrono::milliseconds connect_timeout{30'000};
  /// A connection is lost if nothing is acknowledged for about twice this time.
  std::chrono::milliseconds lost_after{10'000};
  /// How long a connection may take for its proof.
  std::chrono::milliseconds hello_timeout{5'000};
};

/// Links between ranks on any hosts, by TCP. Both links of a pair share one connection, or several over which they are
/// striped (transport/tcp/striping.h); a link that is opened aside has its own.
///
/// Links on the hot list are read in every progress(), without asking whether they have something. A link becomes hot
/// when the reactor sees bytes on it or a message is asked for; it cools down when all that was asked for has come, or
/// after many fruitless passes. So a busy link costs one system call per message, and an idle one costs nothing: its
/// first byte is seen by the next Reactor::poll(), which progress() itself calls now and then.
class TcpTransport final : public Transport {
 public:
  /// Accepts links from now on. Throws Error{invalid_argument} or {system}.
  TcpTransport(int rank, const TcpOptions& options, Reactor& reactor);
  ~TcpTransport() override;

  const char* name() const override { return "tcp"; }
  std::string address() const override;
  /// A rank may have several addresses, with commas between them. The connections of a link go to them in turn.
  void set_peers(std::vector<std::string> addresses) override;
  /// Which ranks run under the same kernel as this one, though perhaps in another network namespace. Connections to
  /// them never leave this host. Before there are links.
  void set_within_host(std::vector<bool> ranks);
  /// More ranks than cores: a rank that waits has no time to give away.
  void share_cores() noexcept;
  void set_sink(Sink& sink) override;

  Link& open(int peer, Channel channel) override;
  Link& open_aside(int peer, Channel channel) override;
  bool may_bring_more(int peer, Channel channel) const noexcept override;
  void close_channel(Channel channel, Clock::time_point deadline) noexcept override;
  void abort_channel(Channel channel, const Error& reason) noexcept override;
  void cut() noexcept override;

  bool progress() noexcept override;
  bool prepare_sleep() noexcept override;
  void awake() noexcept override {}

  /// Number of connections without a proof.
  std::size_t unproved() const;

 private:
  struct Chunk;
  struct Courier;
  struct LinkName {
    Channel channel;
    int peer;
    bool aside;

    bool operator<(const LinkName& other) const {
      return std::tie(channel, peer, aside) < std::tie(other.channel, other.peer, other.aside);
    }
  };
  using OutLinks = std::map<LinkName, std::unique_ptr<tcp::OutLink>>;

  void let_in() noexcept;
  bool serve_links() noexcept;
  bool serve_couriers() noexcept;
  void check_acknowledgements() noexcept;
  bool report_losses(std::uint64_t looked) noexcept;
  void ask_for_look() noexcept;
  template <class Due>
  bool report_losses_if(Due due) noexcept;
  void flush(std::span<tcp::OutLink* const> links, Clock::time_point deadline) noexcept;
  void forget(Channel channel) noexcept;
  void end_others_like(const Link& failed, const Error& reason) noexcept;
  void dismiss_senders(Channel channel, std::span<const std::byte> closing_message) noexcept;

  std::unique_ptr<Chunk> chunk_;
  std::unique_ptr<tcp::TcpContext> context_;
  std::unique_ptr<tcp::Arrivals> arrivals_;
  std::shared_ptr<Acceptor> acceptor_;  ///< its thread uses the members above
  OutLinks out_links_;
  std::list<Courier> couriers_;  ///< aborts on their way to peers that cannot be told on their links
  Clock::time_point flushing_since_{};
  Clock::duration flushed_{};  ///< how long aborts have waited for couriers since then
  unsigned passes_ = 0;
  std::uint64_t looks_ = 0;         ///< number of the last look that was asked for
  Clock::time_point next_check_{};  ///< when to check for missing acknowledgements
};

}  // namespace tutti::transport
