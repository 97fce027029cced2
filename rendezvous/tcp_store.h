#pragma once

#include <memory>

#include "lib/security/secret.h"
#include "lib/security/tls_proxy.h"
#include "rendezvous/endpoint.h"
#include "tutti/store.h"

namespace tutti::rendezvous {

/// tcp_store() for an endpoint that was parsed already. With a secret the server must have the same, which both prove
/// to each other first; with `tls_proxies`, which takes a secret, it must encrypt, too.
std::shared_ptr<Store> connect_tcp_store(const Endpoint& endpoint, Store::Milliseconds timeout,
                                         const Secret& secret = {}, std::shared_ptr<TlsProxies> tls_proxies = {});

}  // namespace tutti::rendezvous
