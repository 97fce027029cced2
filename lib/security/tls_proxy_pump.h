#pragma once

#include <functional>
#include <memory>

#include "lib/base/descriptor.h"
#include "lib/security/secret.h"
#include "lib/security/tls_ends.h"
#include "lib/security/tls_proxy.h"

namespace asio {
class io_context;
namespace ssl {
class context;
}
}  // namespace asio

namespace tutti {

/// One connection of TlsProxies. Threading: created by any thread; otherwise used on the service's thread.
class EncryptedStream {
 public:
  virtual ~EncryptedStream() = default;

  /// `closed` is called once, when the connection is completely closed.
  virtual void start(std::function<void()> closed) = 0;
  /// Sends the data that the user has written so far, and then close_notify, even if a child of fork() holds the user's
  /// end open.
  virtual void end() = 0;
  /// All data that the user has written have been sent.
  virtual bool is_idle() = 0;
  /// Closes at once, whatever is in progress. The second call does nothing.
  virtual void close() = 0;
};

/// Throws. Both sides of a connection may use the same context.
std::shared_ptr<asio::ssl::context> make_tls_context();

/// The pair of sockets between a stream and its user.
struct UsersPair {
  TlsEnds& ends;            ///< outlives the stream
  const Descriptor& users;  ///< only named there by the stream
  Descriptor ours;
};

/// Between `connection` and our end of `pair`. Throws.
std::shared_ptr<EncryptedStream> make_encrypted_stream(asio::io_context& context, asio::ssl::context& tls,
                                                       Descriptor connection, UsersPair pair, TlsProxies::Side side,
                                                       const Digest& key);

}  // namespace tutti
