#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/net/socket.h"
#include "lib/observe/log.h"
#include "lib/security/handshake.h"
#include "lib/security/secret.h"
#include "lib/security/tls_proxy.h"

namespace tutti::transport {

/// What makes a process a member of a job: the key that all members know, and its place.
struct Credentials {
  Secret key;
  int rank = 0;
  std::shared_ptr<TlsProxies> tls_proxies = {};  ///< null: connections are not encrypted
};

struct AcceptorOptions {
  /// Besides the address of the acceptor; of the same family. It listens at the same port of all.
  std::vector<net::Address> other_addresses = {};
  std::string congestion = {};                    ///< as for Path
  std::chrono::milliseconds lost_after{10'000};   ///< of silence, after which keep-alive probes the other end
  std::size_t candidates = 128;                   ///< connections that may be without a proof at the same time
  std::chrono::milliseconds patience{5'000};      ///< how long each of them may take
  std::chrono::milliseconds least_patience{250};  ///< how long at least, if it has sent something, or is a Unix socket
  std::chrono::seconds silence{30};  ///< how long the kernel holds back a TCP connection that sends nothing
};

/// A listening socket, and a thread that demands a proof of each connection (lib/security/handshake.h) and hands it to
/// the part of this rank for which it is. A rank has one acceptor.
///
/// So unknown processes cost the engine's thread nothing, and a peer's first message need not wait until this rank
/// drives its engine. A connection without a proof costs one small record: exactly the bytes of a hello and a proof are
/// read, within a few seconds; then the connection is closed without an answer. For a while the kernel holds back a
/// TCP connection that sends nothing, and if there are too many connections such a one is dropped first.
/// At a Unix socket the kernel tells which user connects: only this process's may.
class Acceptor {
 public:
  /// Gets the connection of a peer that has given its proof. It is non-blocking, encrypted if it must be, and nothing
  /// has been read behind the proof. Handlers run on the acceptor's thread, one at a time, and must not block. If one
  /// throws, the connection is closed.
  using Handler = std::function<void(const Hello& hello, net::Socket socket)>;

  /// Throws Error{system} if it cannot listen on `address`. Port 0, any_unix_address(): the kernel chooses. `log` is
  /// told when the system accepts no more connections.
  Acceptor(const net::Address& address, Credentials credentials, AcceptorOptions options = {}, const Log& log = Log{});
  /// As close().
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  /// "10.0.0.1:4242", "unix:0002f"; of several addresses, "10.0.0.1:4242,10.1.0.1:4242"
  const std::string& address() const;
  /// Number of connections without a proof.
  std::size_t unproved() const;
  /// From now on, connections for `purpose` go to `handler`; before, they are refused.
  void serve(Purpose purpose, Handler handler);
  /// Refuses connections for `purpose` again. The handler will not run any more, nor what look() was to call.
  void dismiss(Purpose purpose) noexcept;
  /// Hands over every connection that has come by now and proves itself. Then calls `done` on the acceptor's thread, or
  /// at once if the acceptor is closed or memory is short. For the part that serves `purpose`.
  void look(Purpose purpose, const std::function<void()>& done) noexcept;
  /// Stops listening, closes all connections, and joins the thread. Must not be called from that thread.
  void close() noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::transport
