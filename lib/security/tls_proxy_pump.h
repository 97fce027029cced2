#pragma once

#include <functional>
#include <memory>

#include "lib/base/descriptor.h"
#include "lib/security/secret.h"
#include "lib/security/tls_proxy.h"

namespace asio {
class io_context;
namespace ssl {
class context;
}
}  // namespace asio

namespace tutti {

/// One connection of TlsProxies. Threading: made anywhere; the rest on the service's thread.
class Tunnel {
 public:
  virtual ~Tunnel() = default;

  /// `closed` is called once, when nothing is left of the connection.
  virtual void start(std::function<void()> closed) = 0;
  /// Sends what the user has written by now, and says goodbye, even if a child of fork() holds his end open.
  virtual void end() = 0;
  /// What the user has written has been sent.
  virtual bool is_idle() = 0;
  /// At once, whatever is on its way. Does nothing the second time.
  virtual void close() = 0;
};

/// Throws; both sides of a connection may use the same.
std::shared_ptr<asio::ssl::context> make_tls_context();

/// Between `tcp` and `user`, which is the end of a pair. Throws.
std::shared_ptr<Tunnel> make_tunnel(asio::io_context& context, asio::ssl::context& tls, Descriptor tcp, Descriptor user,
                                    TlsProxies::Side side, const Digest& key);

}  // namespace tutti
