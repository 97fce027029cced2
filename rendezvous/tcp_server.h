#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "rendezvous/access_policy.h"
#include "rendezvous/endpoint.h"

namespace tutti::rendezvous {

/// What strangers may cost the server. Whoever exceeds a limit loses his connection; the others do not notice.
struct ServerLimits {
  std::size_t total_bytes = std::size_t{1} << 30;     ///< keys, values, requests and answers under way
  std::size_t message_bytes = std::size_t{64} << 20;  ///< one request, one answer
  std::size_t connections = 65'536;           ///< without a secret the one that has been idle longest goes first
  std::chrono::milliseconds idle{1'000};      ///< but only after so long
  std::size_t unidentified = 1024;            ///< connections that have not said what they are; the oldest goes first
  std::chrono::milliseconds grace{500};       ///< how long it stays all the same: a thousand ranks may start at once
  std::chrono::milliseconds identify{5'000};  ///< to say what they are
  std::chrono::milliseconds stall{30'000};    ///< without a byte in the middle of a request or an answer
};

/// A TCP store: serves PyTorch's TCPStore protocol from a thread of its own until it is destroyed.
///
/// It listens on exactly the address it was told, or on all that a name has here, and on no other. With a secret every
/// client must prove that it knows it, and proves its own knowledge to the client, before anything else is read;
/// PyTorch's client cannot. Without one it listens on loopback only, and serves only root and the user that runs it, as
/// far as the kernel tells whose a connection is (AccessPolicy::insecure: everybody, everywhere). Threading: construct,
/// destroy and ask from any thread.
class TcpStoreServer {
 public:
  /// Throws Error{rendezvous} when it cannot listen there, or the host's name stays unknown until the deadline.
  /// Port 0: the kernel chooses. Throws Error{invalid_argument} with the remedies when everybody in the network could
  /// reach a store without a secret.
  explicit TcpStoreServer(const Endpoint& endpoint, const ServerLimits& limits = {},
                          Deadline deadline = std::chrono::steady_clock::now() + std::chrono::seconds{2},
                          const AccessPolicy& access_policy = {});
  ~TcpStoreServer();
  TcpStoreServer(const TcpStoreServer&) = delete;
  TcpStoreServer& operator=(const TcpStoreServer&) = delete;

  /// Where it listens, numeric; the first address of a name.
  const Endpoint& endpoint() const;
  bool is_on_loopback() const;
  bool has_secret() const;

  struct Figures {
    std::uint64_t requests = 0;    ///< served in all, without the greetings
    std::size_t connections = 0;   ///< now
    std::size_t memory_bytes = 0;  ///< of limits.total_bytes in use
    std::uint64_t unproved = 0;    ///< turned away because they did not even try to prove that they know the secret
    std::uint64_t strangers = 0;   ///< turned away because another user of this host made them
  };
  Figures figures() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::rendezvous
