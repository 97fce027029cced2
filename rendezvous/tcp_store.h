#pragma once

#include <memory>

#include "lib/security/secret.h"
#include "lib/security/tls_proxy.h"
#include "rendezvous/endpoint.h"
#include "tutti/store.h"

namespace tutti::rendezvous {

/// tcp_store() for a parsed endpoint. With a secret, client and server prove to each other that they have the same one;
/// with `tls_proxies`, which needs a secret, the server must also encrypt.
std::shared_ptr<Store> connect_tcp_store(const Endpoint& endpoint, Store::Milliseconds timeout,
                                         const Secret& secret = {}, std::shared_ptr<TlsProxies> tls_proxies = {});

}  // namespace tutti::rendezvous
