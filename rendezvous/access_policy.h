#pragma once

#include <memory>

#include "lib/security/secret.h"
#include "lib/security/tls_proxy.h"
#include "rendezvous/endpoint.h"

namespace tutti::rendezvous {

/// Who may use a TCP store.
struct AccessPolicy {
  Secret secret = {};                            ///< clients must prove that they know it; empty: everybody may
  bool insecure = false;                         ///< without a secret, but not on loopback only
  std::shared_ptr<TlsProxies> tls_proxies = {};  ///< encrypt all connections, which takes a secret; null: none
};

/// Throws Error{invalid_argument} with the remedies when a store at `address` would be open to other hosts although
/// nobody has said that it may.
void check_access(const SocketAddress& address, const AccessPolicy& access_policy);

}  // namespace tutti::rendezvous
