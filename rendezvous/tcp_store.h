#pragma once

#include <memory>

#include "rendezvous/endpoint.h"
#include "tutti/store.h"

namespace tutti::rendezvous {

/// tcp_store() for an endpoint that was parsed already.
std::shared_ptr<Store> connect_tcp_store(const Endpoint& endpoint, Store::Milliseconds timeout);

}  // namespace tutti::rendezvous
