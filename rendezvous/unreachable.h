#pragma once

#include <span>
#include <string>

#include "rendezvous/endpoint.h"
#include "rendezvous/interfaces.h"

namespace tutti::rendezvous {

/// Why a host that has these interfaces can reach none of `addresses`, however often it tries, and what to do.
struct Unreachable {
  std::string problem = {};  ///< empty: it may succeed
  bool at_once = false;      ///< else an interface that is just coming up may still change it
};

Unreachable why_unreachable(std::span<const SocketAddress> addresses, std::span<const Interface> all);

}  // namespace tutti::rendezvous
