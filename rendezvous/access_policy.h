#pragma once

#include <memory>

#include "lib/security/secret.h"
#include "lib/security/tls_proxy.h"
#include "rendezvous/endpoint.h"

namespace tutti::rendezvous {

/// The clients that a TCP store serves.
struct AccessPolicy {
  Secret secret = {};                            ///< clients must prove that they know it; empty: no proof is needed
  bool insecure = false;                         ///< without a secret, serve other hosts as well
  std::shared_ptr<TlsProxies> tls_proxies = {};  ///< encrypt all connections, which needs a secret; null: none
  bool clients_choose = false;                   ///< encrypt those whose clients wish it, which needs a secret
};

/// Throws Error{invalid_argument} with the remedies when a store at `address` would be open to other hosts although
/// nobody has said that it may.
void check_access(const net::Address& address, const AccessPolicy& access_policy);

}  // namespace tutti::rendezvous
