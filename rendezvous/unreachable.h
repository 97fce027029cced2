#pragma once

#include <span>
#include <string>

#include "rendezvous/endpoint.h"
#include "rendezvous/interfaces.h"

namespace tutti::rendezvous {

/// The reason for which a host with these interfaces can never reach any of `addresses`, and the remedy.
struct Unreachable {
  std::string problem = {};  ///< empty: it may succeed
  bool at_once = false;      ///< false: an interface that is just coming up may still change it
};

Unreachable why_unreachable(std::span<const net::Address> addresses, std::span<const Interface> all);

}  // namespace tutti::rendezvous
