// The TCP store's server: one thread, one Asio loop, one small state machine per connection (tcp_connection.cc).
//
// Each state that a client can prolong (unidentified, in the middle of a request, in the middle of an answer) has a
// deadline, kept by one timer for all. Between requests a connection may idle without limit: that is what stores are
// for.

#include "rendezvous/tcp_server.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <atomic>
#include <cerrno>
#include <exception>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "lib/base/background_thread.h"
#include "lib/base/fork_mark.h"
#include "lib/base/net/socket.h"
#include "lib/base/system_error_text.h"
#include "lib/observe/log.h"
#include "rendezvous/socket_owner.h"
#include "rendezvous/store_auth.h"
#include "rendezvous/store_socket.h"
#include "rendezvous/tcp_connection.h"
#include "rendezvous/tcp_service.h"
#include "tutti/error.h"

namespace tutti::rendezvous {
namespace {

using Clock = std::chrono::steady_clock;
using asio::posix::stream_descriptor;

/// A rank, or a launcher, fails at once when the clients of its server leave it no descriptor. Clients that have proved
/// to be of the job are not limited.
ServerLimits within_descriptors(ServerLimits limits, bool has_secret) {
  rlimit descriptors{};
  if (::getrlimit(RLIMIT_NOFILE, &descriptors) != 0) descriptors.rlim_cur = 1024;
  const rlim_t share = descriptors.rlim_cur / limits.descriptor_share;
  const auto lower = [](std::size_t& limit, rlim_t most) {
    limit = static_cast<std::size_t>(std::min<rlim_t>(limit, std::max<rlim_t>(most, 1)));
  };
  if (!has_secret) lower(limits.connections, share);
  lower(limits.unidentified, share / 4);
  return limits;
}

}  // namespace

class TcpStoreServer::Impl final : public ConnectionHost {
 public:
  Impl(const Endpoint& endpoint, const ServerLimits& limits, Resolved addresses, const AccessPolicy& access_policy)
      : limits_(within_descriptors(limits, !access_policy.secret.empty())),
        key_(store_key(access_policy.secret)),
        owners_(access_policy.secret.empty() && !access_policy.insecure ? std::make_unique<SocketOwners>() : nullptr),
        clients_choose_(access_policy.clients_choose),
        tls_proxies_(access_policy.tls_proxies),
        budget_(limits.total_bytes),
        service_(budget_, limits.message_bytes) {
    for (Descriptor& socket : listen_on(endpoint, std::move(addresses))) {
      const net::Address address = net::local_address(socket);
      check_access(address, access_policy);
      if (listeners_.empty()) endpoint_ = endpoint_of(address);
      on_loopback_ = on_loopback_ && address.is_loopback();
      listeners_.emplace_back(stream_descriptor{context_, socket.get()});
      socket.release();
    }
    for (Listener& listener : listeners_) accept_later(listener);
    thread_ = start_thread_without_signals([this] { run(); });
  }

  ~Impl() {
    context_.stop();
    thread_.join();
    service_.drop_wills();
    // Each close() removes its connection from the map.
    while (!connections_.empty()) connections_.begin()->second->close();
  }

  bool is_here() const { return mark_.is_here(); }
  const Endpoint& endpoint() const { return endpoint_; }
  bool is_on_loopback() const { return on_loopback_; }
  bool has_secret() const { return !key_.empty(); }
  Figures figures() const {
    return {requests_.load(), connection_count_.load(), memory_bytes_.load(), unproved_.load(), strangers_.load()};
  }

 private:
  const ServerLimits& limits() const override { return limits_; }
  const Secret& key() const override { return key_; }
  std::optional<bool> encrypts() const override {
    return clients_choose_ ? std::nullopt : std::optional{tls_proxies_ != nullptr};
  }
  StoreService& service() override { return service_; }
  Budget& budget() override { return budget_; }
  std::span<char> receive_buffer() override { return receive_buffer_; }
  /// Most servers whose clients choose never encrypt, and need no thread for that.
  TlsProxies& tls_proxies() override {
    if (!tls_proxies_) tls_proxies_ = std::make_shared<TlsProxies>();
    return *tls_proxies_;
  }

  void identified(std::uint64_t number) override { unidentified_.erase(number); }
  void count_request() override { ++requests_; }
  void count_unproved() override { ++unproved_; }

  void drop(std::uint64_t number) override {
    unidentified_.erase(number);
    connections_.erase(number);
    publish_figures();
  }

  void run() {
    while (!context_.stopped()) {
      try {
        context_.run_one();
        publish_figures();
      } catch (const std::exception&) {
        // Out of memory outside of any connection: the current action is given up, and the others are served further.
      }
    }
  }

  void publish_figures() {
    connection_count_ = connections_.size();
    memory_bytes_ = budget_.used();
  }

  struct Listener {
    explicit Listener(stream_descriptor listening) : socket(std::move(listening)) {}
    stream_descriptor socket;
    bool waiting = false;
  };

  void accept_later(Listener& listener) {
    if (std::exchange(listener.waiting, true)) return;
    listener.socket.async_wait(stream_descriptor::wait_read, [this, &listener](const asio::error_code& failed) {
      listener.waiting = false;
      if (!failed) accept();
    });
  }

  void accept() {
    try {
      accept_from_all();
    } catch (const std::exception&) {
      pause_accepting();
    }
  }

  void accept_from_all() {
    for (Listener& listener : listeners_) {
      if (!accept_some(listener)) return pause_accepting();
      accept_later(listener);  // at once, if more connections wait there
    }
  }

  /// False: there is no room for more connections now.
  bool accept_some(Listener& listener) {
    for (int i = 0; i < net::accepts_at_once; ++i) {
      if (!make_room()) return false;
      const net::SocketView waiting{listener.socket.native_handle()};
      net::Socket socket = net::accept_next(waiting);
      if (socket) {
        add(std::move(socket));
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        return true;
      } else if (const int error = errno; net::is_our_own(error)) {
        if (!net::is_connection_waiting(waiting)) return true;
        if (show_out_oldest() || show_out_idle()) continue;
        if (!std::exchange(starved_, true))
          Log{}.warn(
              fmt::format("the store at {} cannot accept connections: {}", to_string(endpoint_), refusal(error)));
        return false;
      }
      // Any other error concerns only the connection that was about to be accepted.
    }
    return true;
  }

  /// False when a new connection must wait until one before it has identified itself, or had time enough to.
  bool make_room() { return unidentified_.size() < limits_.unidentified || show_out_oldest(); }

  bool show_out_oldest() {
    if (unidentified_.empty()) return false;
    const auto oldest = connections_.at(*unidentified_.begin());
    if (Clock::now() < oldest->begin() + limits_.grace) return false;
    oldest->close();
    return true;
  }

  /// Clients that have proved to be of the job may idle for as long as they like. A new client takes the place of the
  /// one that has idled longest of the others.
  bool show_out_idle() {
    if (!key_.empty()) return false;
    std::shared_ptr<Connection> idlest;
    auto earliest = Clock::now() - limits_.idle;
    for (const auto& [number, connection] : connections_)
      if (const auto since = connection->idle_since(); since && *since < earliest) {
        idlest = connection;
        earliest = *since;
      }
    if (idlest) idlest->close();
    return idlest != nullptr;
  }

  /// False for a connection that another user of this host has made, or that has been given up already.
  bool is_ours(int socket) {
    if (!owners_) return true;
    const std::optional<SocketOwner> owner = owners_->of_peer(socket);
    if (!owner) return true;
    if (owner->open && !owner->is_trusted()) ++strangers_;
    return owner->is_trusted();
  }

  /// Connections that come meanwhile wait in the kernel's queue.
  void pause_accepting() {
    accept_timer_.expires_after(std::chrono::milliseconds{20});
    accept_timer_.async_wait([this](const asio::error_code& failed) {
      if (!failed) accept();
    });
  }

  void add(Descriptor socket) {
    if (!is_ours(socket.get())) return;
    if (connections_.size() >= limits_.connections && !show_out_idle()) return;
    net::send_without_delay(socket);
    net::keep_alive(socket, silence_of_store);
    const std::uint64_t number = next_number_++;
    const auto connection = make_connection(*this, number, context_, std::move(socket));
    connections_.emplace(number, connection);
    unidentified_.insert(number);
    connection->start();
    watch_deadlines();
  }

  /// Checks all deadlines a few times within the shortest of them, as long as there are any.
  void watch_deadlines() override {
    if (watching_) return;
    watching_ = true;
    watch_timer_.expires_after(std::clamp(std::min(limits_.identify, limits_.stall) / 4, std::chrono::milliseconds{5},
                                          std::chrono::milliseconds{1000}));
    watch_timer_.async_wait([this](const asio::error_code& failed) {
      watching_ = false;
      if (!failed) enforce_deadlines();
    });
  }

  void enforce_deadlines() {
    const auto now = Clock::now();
    bool more = false;
    std::vector<std::shared_ptr<Connection>> late;  // close() removes them from the map, and possibly others
    for (const auto& [number, connection] : connections_) {
      const auto deadline = connection->deadline();
      if (!deadline) continue;
      if (*deadline <= now)
        late.push_back(connection);
      else
        more = true;
    }
    for (const auto& connection : late) connection->close();
    if (more) watch_deadlines();
  }

  const ForkMark mark_;
  const ServerLimits limits_;
  const Secret key_;
  const std::unique_ptr<SocketOwners> owners_;  // null: every user of the host is served
  const bool clients_choose_;
  std::shared_ptr<TlsProxies> tls_proxies_;
  Endpoint endpoint_;
  bool on_loopback_ = true;
  Budget budget_;
  StoreService service_;
  std::array<char, 65'536> receive_buffer_;
  std::atomic<std::uint64_t> requests_{0};
  std::atomic<std::uint64_t> unproved_{0};
  std::atomic<std::uint64_t> strangers_{0};
  std::atomic<std::size_t> connection_count_{0};
  std::atomic<std::size_t> memory_bytes_{0};

  asio::io_context context_{1};
  std::list<Listener> listeners_;  // one for each address
  asio::steady_timer accept_timer_{context_};
  asio::steady_timer watch_timer_{context_};
  bool watching_ = false;
  bool starved_ = false;                                              // and that was told
  std::map<std::uint64_t, std::shared_ptr<Connection>> connections_;  // oldest first
  std::set<std::uint64_t> unidentified_;
  std::uint64_t next_number_ = 0;
  std::thread thread_;
};

TcpStoreServer::TcpStoreServer(const Endpoint& endpoint, const ServerLimits& limits, Deadline deadline,
                               const AccessPolicy& access_policy)
    : TcpStoreServer(endpoint, limits, await_addresses(endpoint, deadline), access_policy) {}

TcpStoreServer::TcpStoreServer(const Endpoint& endpoint, const ServerLimits& limits, Resolved addresses,
                               const AccessPolicy& access_policy)
    : impl_(std::make_unique<Impl>(endpoint, limits, std::move(addresses), access_policy)) {}

TcpStoreServer::~TcpStoreServer() {
  if (!impl_->is_here()) keep_for_ever(std::shared_ptr<const void>{std::move(impl_)});
}

const Endpoint& TcpStoreServer::endpoint() const { return impl_->endpoint(); }

bool TcpStoreServer::is_on_loopback() const { return impl_->is_on_loopback(); }

bool TcpStoreServer::has_secret() const { return impl_->has_secret(); }

TcpStoreServer::Figures TcpStoreServer::figures() const { return impl_->figures(); }

}  // namespace tutti::rendezvous
