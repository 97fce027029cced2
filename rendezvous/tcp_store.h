#pragma once

#include <memory>

#include "rendezvous/access_policy.h"
#include "rendezvous/endpoint.h"
#include "tutti/store.h"

namespace tutti::rendezvous {

/// tcp_store() for a parsed endpoint, where the server has that policy: with a secret, client and server prove to each
/// other that they have the same one; with `tls_proxies`, which needs a secret, the server must also encrypt.
std::shared_ptr<Store> connect_tcp_store(const Endpoint& endpoint, Store::Milliseconds timeout,
                                         AccessPolicy access_policy = {});

}  // namespace tutti::rendezvous
