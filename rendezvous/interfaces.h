#pragma once

#include <span>
#include <string>
#include <vector>

#include "rendezvous/launchers.h"

namespace tutti::rendezvous {

struct Interface {
  std::string name;
  std::string address;  ///< numeric
  bool loopback = false;
  bool up = false;
};

/// All IPv4 and IPv6 addresses of this host.
std::vector<Interface> interfaces();

/// The numeric address peers shall use to reach this rank: that of the route to the rendezvous `url`, or the one that
/// TUTTI_SOCKET_IFNAME (NCCL's grammar: prefixes, `=` exact, `^` exclude) names. Loopback only if the rendezvous
/// is written as loopback (a name that leads there is not), or if there is no other interface. Throws
/// Error{invalid_argument} listing the interfaces when none matches.
Interface choose_interface(const std::string& url, const Lookup& environment);

/// The same among given interfaces, where the route to the rendezvous starts at the address `route` (empty: no route).
Interface choose_among(std::span<const Interface> all, const std::string& route, const Lookup& environment);

}  // namespace tutti::rendezvous
