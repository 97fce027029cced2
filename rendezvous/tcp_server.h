#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "rendezvous/access_policy.h"
#include "rendezvous/endpoint.h"

namespace tutti::rendezvous {

/// What unknown clients may cost the server. One that exceeds a limit loses its connection; the others do not notice.
struct ServerLimits {
  std::size_t total_bytes = std::size_t{1} << 30;     ///< keys, values, requests and answers in progress
  std::size_t message_bytes = std::size_t{64} << 20;  ///< one request, one answer
  std::size_t connections = 65'536;       ///< without a secret, the one that has been idle longest is closed first
  std::chrono::milliseconds idle{1'000};  ///< but only after that time
  std::size_t unidentified = 1024;  ///< connections that have not identified themselves; the oldest is closed first
  std::chrono::milliseconds grace{500};       ///< but not before that age: a thousand ranks may start at once
  std::chrono::milliseconds identify{5'000};  ///< time to identify themselves
  std::chrono::milliseconds stall{30'000};    ///< without a byte in the middle of a request or an answer
  /// Without a secret all connections together take at most this part of the descriptors that the process may have when
  /// the server starts (RLIMIT_NOFILE): 2 is a half. With or without one, those that have not identified themselves
  /// take a quarter of it. The process needs the others, for example for a link to each client.
  std::size_t descriptor_share = 2;
};

/// A TCP store: serves PyTorch's TCPStore protocol from a thread of its own until it is destroyed.
///
/// It listens on exactly the given address, or on all addresses of a name that this host has, and on no other. With a
/// secret, client and server prove to each other that they know it before anything else is read; PyTorch's client
/// cannot. Without one it listens on loopback only and serves only root and the user that runs it, as far as the kernel
/// tells who owns a connection (AccessPolicy::insecure: everybody, everywhere).
///
/// Threading: construct, destroy and ask from any thread.
class TcpStoreServer {
 public:
  /// Throws Error{rendezvous} if it cannot listen there, or if the host's name is still unknown at the deadline. Port
  /// 0: the kernel chooses. Throws Error{invalid_argument} with the remedies if everybody in the network could reach a
  /// store without a secret.
  explicit TcpStoreServer(const Endpoint& endpoint, const ServerLimits& limits = {},
                          Deadline deadline = std::chrono::steady_clock::now() + std::chrono::seconds{2},
                          const AccessPolicy& access_policy = {});
  /// The same where the addresses of `endpoint` are known: this asks the program nothing.
  TcpStoreServer(const Endpoint& endpoint, const ServerLimits& limits, Resolved addresses,
                 const AccessPolicy& access_policy);
  ~TcpStoreServer();
  TcpStoreServer(const TcpStoreServer&) = delete;
  TcpStoreServer& operator=(const TcpStoreServer&) = delete;

  /// The numeric address of the first listener.
  const Endpoint& endpoint() const;
  bool is_on_loopback() const;
  bool has_secret() const;

  struct Figures {
    std::uint64_t requests = 0;    ///< served in all, without the greetings
    std::size_t connections = 0;   ///< open now
    std::size_t memory_bytes = 0;  ///< of limits.total_bytes in use
    std::uint64_t unproved = 0;    ///< refused because they did not attempt a proof of the secret
    std::uint64_t strangers = 0;   ///< refused because another user of this host made them
  };
  Figures figures() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::rendezvous
