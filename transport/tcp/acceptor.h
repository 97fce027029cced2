#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "lib/observe/log.h"
#include "lib/security/handshake.h"
#include "lib/security/secret.h"
#include "lib/security/tls_proxy.h"
#include "transport/tcp/socket.h"

namespace tutti::transport::tcp {

/// What makes a process a member of a job: the key that all members know, and its place.
struct Credentials {
  Secret key;
  int rank = 0;
  std::shared_ptr<TlsProxies> tls_proxies = {};  ///< null: connections are not encrypted
};

struct DoorOptions {
  std::string congestion = {};                    ///< as for connect_to()
  std::chrono::milliseconds lost_after{10'000};   ///< of silence, when the other end is asked for a sign of life
  std::size_t strangers = 128;                    ///< connections that have not proved themselves yet
  std::chrono::milliseconds patience{5'000};      ///< with each of them
  std::chrono::milliseconds least_patience{250};  ///< when others wait for the place of one that has begun to speak
  std::chrono::seconds silence{30};               ///< of a caller until the kernel shows him to the acceptor at all
};

/// Lets peers in, whatever they come for: a listening socket, and a thread that asks everybody who comes for a proof
/// (lib/security/handshake.h) and hands over the connection to the part that serves its purpose. A rank has one.
///
/// So strangers cost the engine's thread nothing, and a peer's first message need not wait until this rank happens to
/// drive its engine. A stranger costs one small record that nothing he sends makes grow: exactly the bytes of a hello
/// and a proof are read, in a few seconds; then he is shown out without a word. Who says nothing is not even
/// accepted by the kernel for a while, and must go first when places are scarce.
class Acceptor {
 public:
  /// Gets the connection of a peer that has proved itself, and is encrypted if it shall be; non-blocking, with nothing
  /// read behind the proof. Runs on the acceptor's thread, one at a time, and must not block; if it throws, the
  /// connection is closed.
  using Welcome = std::function<void(const Hello& hello, Socket socket)>;

  /// Throws Error{system} if `address` cannot be listened on. Port 0: the kernel chooses. `log` hears when the system
  /// lets nobody in any more.
  Acceptor(const Address& address, Credentials credentials, DoorOptions options = {}, const Log& log = Log{});
  /// As close().
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  /// "10.0.0.1:4242"
  const std::string& address() const;
  /// Connections without a proof, now.
  std::size_t strangers() const;
  /// From now on connections for `purpose` go to `welcome`; until then they are refused.
  void serve(Purpose purpose, Welcome welcome);
  /// No longer: neither its welcome nor what waits for a look of its runs any more.
  void dismiss(Purpose purpose) noexcept;
  /// Hears everybody who has come by now, welcomes whom that proves, then calls `done` on the acceptor's thread, for
  /// the part that serves `purpose`. Where it cannot (it is closed, or no memory), calls it at once.
  void look(Purpose purpose, const std::function<void()>& done) noexcept;
  /// Listens no more, shows everybody out and joins the thread. Not from that thread.
  void close() noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::transport::tcp
