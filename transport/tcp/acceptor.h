#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "lib/base/net/socket.h"
#include "lib/observe/log.h"
#include "lib/security/handshake.h"
#include "lib/security/secret.h"
#include "lib/security/tls_proxy.h"

namespace tutti::transport::tcp {

/// What makes a process a member of a job: the key that all members know, and its place.
struct Credentials {
  Secret key;
  int rank = 0;
  std::shared_ptr<TlsProxies> tls_proxies = {};  ///< null: connections are not encrypted
};

struct AcceptorOptions {
  std::string congestion = {};                    ///< as for connect_to()
  std::chrono::milliseconds lost_after{10'000};   ///< of silence, when the other end is asked for a sign of life
  std::size_t candidates = 128;                   ///< connections that have not proved themselves yet
  std::chrono::milliseconds patience{5'000};      ///< with each of them
  std::chrono::milliseconds least_patience{250};  ///< when others wait for the place of one that has begun to speak
  std::chrono::seconds silence{30};               ///< of a connection before the kernel lets the acceptor see it
};

/// A listening socket, and a thread that asks each connection for a proof (lib/security/handshake.h) and hands it over
/// to the part of this rank that serves its purpose. A rank has one.
///
/// So unknown processes cost the engine's thread nothing, and a peer's first message need not wait until this rank
/// happens to drive its engine. A connection without a proof costs one small record that does not grow: exactly the
/// bytes of a hello and a proof are read, in a few seconds; then the connection is closed without an answer. The kernel
/// holds back for a while a connection that sends nothing, and such a connection is the first to go where there are too
/// many.
class Acceptor {
 public:
  /// Gets the connection of a peer that has proved itself, and is encrypted if it shall be; non-blocking, with nothing
  /// read behind the proof. Runs on the acceptor's thread, one at a time, and must not block; if it throws, the
  /// connection is closed.
  using Handler = std::function<void(const Hello& hello, net::Socket socket)>;

  /// Throws Error{system} if `address` cannot be listened on. Port 0: the kernel chooses. `log` hears when the system
  /// accepts no connections any more.
  Acceptor(const net::Address& address, Credentials credentials, AcceptorOptions options = {}, const Log& log = Log{});
  /// As close().
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  /// "10.0.0.1:4242"
  const std::string& address() const;
  /// Connections without a proof, now.
  std::size_t unproved() const;
  /// From now on connections for `purpose` go to `handler`; until then they are refused.
  void serve(Purpose purpose, Handler handler);
  /// Refuses them again. From now on neither the handler runs nor what look() was to call.
  void dismiss(Purpose purpose) noexcept;
  /// Hands over every connection that has come by now and proves itself, then calls `done` on the acceptor's thread,
  /// for the part that serves `purpose`. Where it cannot (it is closed, or no memory), calls it at once.
  void look(Purpose purpose, const std::function<void()>& done) noexcept;
  /// Listens no more, closes all connections and joins the thread. Not from that thread.
  void close() noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::transport::tcp
