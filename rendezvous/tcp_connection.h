#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "lib/security/secret.h"
#include "lib/security/tls_proxy.h"
#include "rendezvous/store_socket.h"
#include "rendezvous/tcp_server.h"
#include "rendezvous/tcp_service.h"

namespace asio {
class io_context;
}

namespace tutti::rendezvous {

/// Services of the server that a connection uses.
class ConnectionHost {
 public:
  virtual const ServerLimits& limits() const = 0;
  /// Clients must prove that they know it; empty: everybody may use the store.
  virtual const Secret& key() const = 0;
  /// Whether connections are encrypted; nothing: as each client wishes.
  virtual std::optional<bool> encrypts() const = 0;
  /// Where some are. Throws Error where the first of them comes and this process cannot encrypt.
  virtual TlsProxies& tls_proxies() = 0;
  virtual StoreService& service() = 0;
  virtual Budget& budget() = 0;
  virtual std::span<char> receive_buffer() = 0;
  virtual void identified(std::uint64_t number) = 0;
  virtual void count_request() = 0;
  /// Counts a connection that made no proof of the key.
  virtual void count_unproved() = 0;
  virtual void watch_deadlines() = 0;
  /// Forgets the connection; it lives on until its last handler has run.
  virtual void drop(std::uint64_t number) = 0;

 protected:
  ~ConnectionHost() = default;
};

/// One client of the server. Threading: all on the server's thread.
class Connection {
 public:
  virtual ~Connection() = default;
  virtual void start() = 0;
  /// The second call does nothing.
  virtual void close() = 0;
  virtual std::chrono::steady_clock::time_point begin() const = 0;
  /// When the client loses its connection unless it makes progress; empty if it has no deadline.
  virtual std::optional<std::chrono::steady_clock::time_point> deadline() const = 0;
  /// Since when the client has neither asked nor waited for anything; empty while it does.
  virtual std::optional<std::chrono::steady_clock::time_point> idle_since() const = 0;
};

std::shared_ptr<Connection> make_connection(ConnectionHost& host, std::uint64_t number, asio::io_context& context,
                                            Descriptor socket);

}  // namespace tutti::rendezvous
