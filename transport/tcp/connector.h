#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "lib/security/handshake.h"
#include "lib/security/secret.h"
#include "lib/security/tls_proxy.h"
#include "transport/tcp/socket.h"

namespace tutti::transport::tcp {

/// One attempt to connect to the Acceptor of another rank. It never blocks: call advance() when fd() is ready for
/// events(), until it returns something else than EAGAIN.
class Connector {
 public:
  /// Ends when both sides have proved themselves. `key` must outlive this. With `tls_proxies` the connection is
  /// encrypted, as it must be on the other side, too; `hello` need not say so.
  Connector(const Address& address, const Secret& key, Hello hello, std::shared_ptr<TlsProxies> tls_proxies);
  /// Ends when it is known whether anybody listens there.
  explicit Connector(const Address& address);

  /// 0: it has come to its end. EAGAIN: not yet. Else why it never will: errno, end_of_stream or another_secret.
  int advance() noexcept;
  int fd() const { return socket_.get(); }
  short events() const noexcept;
  /// After advance() has returned 0: non-blocking, nothing has been read behind the proofs.
  Socket take() { return std::move(socket_); }

  static constexpr int another_secret = -2;

 private:
  enum class Stage { connecting, greeting, encrypting };

  Socket socket_;
  int refusal_ = 0;  // of the attempt to begin
  Stage stage_ = Stage::connecting;
  std::optional<Handshake> handshake_;
  std::shared_ptr<TlsProxies> tls_proxies_;
};

/// Connects to the Acceptor at `address` ("10.0.0.1:4242") as `hello.from`, and returns once both sides have proved
/// themselves. Tries again, more slowly each time, while the other side refuses or hangs up: it may not listen yet, or
/// be short of places. Otherwise as Connector.
///
/// Blocks until `deadline` at most. Throws Error{peer_lost} with rank `hello.to`: not reached in time, or who answers
/// there does not know the key; Error{system} when this host lacks something.
Socket connect_authenticated(const std::string& address, const Secret& key, Hello hello,
                             std::chrono::steady_clock::time_point deadline,
                             const std::shared_ptr<TlsProxies>& tls_proxies = {});

}  // namespace tutti::transport::tcp
