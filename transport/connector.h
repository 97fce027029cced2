#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "lib/base/net/socket.h"
#include "lib/security/handshake.h"
#include "lib/security/secret.h"
#include "lib/security/tls_proxy.h"
#include "transport/stream_socket.h"

namespace tutti::transport {

/// One attempt to connect to the Acceptor of another rank. It never blocks: call advance() when fd() is ready for
/// events(), until it returns something else than EAGAIN.
class Connector {
 public:
  /// Connects, and ends when both sides have given their proofs and the other one has accepted. `key` must outlive this
  /// object. With `tls_proxies` the connection is encrypted, as it must be on the other side, too; `hello` need not say
  /// so.
  Connector(const net::Address& address, const Secret& key, Hello hello, std::shared_ptr<TlsProxies> tls_proxies,
            const Path& path = {});
  /// Ends when it is known whether a process listens there.
  explicit Connector(const net::Address& address, const Path& path = {});

  /// 0: it has succeeded. EAGAIN: not yet. Otherwise it has failed: errno, end_of_stream, queue_full or another_secret.
  /// May replace the socket by another one.
  int advance() noexcept;
  int fd() const { return socket_.get(); }
  const net::Socket& socket() const { return socket_; }
  /// POLLIN or POLLOUT.
  short events() const noexcept;
  /// Whether the other side may have seen the beginning of the handshake.
  bool is_connected() const { return is_connected_; }
  /// Takes the socket, after advance() has returned 0. It is non-blocking, and nothing has been read behind the accept
  /// byte.
  net::Socket take() { return std::move(socket_); }

  static constexpr int another_secret = -3;
  static constexpr const char* another_secret_text =
      "the process that answers there does not know this job's secret; it belongs to another job, or has another "
      "TUTTI_SECRET";

 private:
  net::Socket socket_;
  int refusal_ = 0;  // error of the attempt to begin
  bool is_connected_ = false;
  std::optional<Handshake> handshake_;
  std::shared_ptr<TlsProxies> tls_proxies_;
};

/// How long to wait after that many attempts, before the next one.
std::chrono::milliseconds pause_after(int attempts);

}  // namespace tutti::transport
