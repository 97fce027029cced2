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

/// Requirements on the address for peers.
struct Wish {
  const Lookup& environment;
  bool one_host = false;  ///< all ranks are on this host, see is_on_one_host()
};

struct Choice {
  Interface interface;
  std::string warning = {};            ///< about a variable that was ignored, for people; empty: none
  std::string families = {};           ///< of addresses that this host has besides loopback: "4", "6", "46"
  std::vector<Interface> others = {};  ///< more interfaces that the user has named, in that order, of the same family
  std::vector<std::string> without = {};  ///< names that the user has given and none of these interfaces has
};

/// True if all ranks of the job are known to be on this host: the launcher says so, or they meet on loopback.
bool is_on_one_host(const Launch& launch);

bool is_v6(const Interface& interface);
/// A link-local address is useful to peers only with the interface's number, which differs from host to host.
bool is_link_local(const Interface& interface);

/// All IPv4 and IPv6 addresses of this host.
std::vector<Interface> interfaces();

/// The numeric address under which peers shall reach this rank. It is that of the route to the rendezvous `url`, or the
/// one that TUTTI_SOCKET_IFNAME (NCCL's grammar: prefixes, `=` exact, `^` exclude) names. Loopback is chosen only if
/// the rendezvous is written as loopback (a name that leads there is not), or if there is no other interface. Throws
/// Error{invalid_argument} listing the interfaces if none matches. NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME, which
/// often come with an image and are meant for the network, do not stop a job of one host.
Choice choose_interface(const std::string& url, const Wish& wish);

/// The same among given interfaces. The route to the rendezvous starts at the address `route` (empty: no route).
Choice choose_among(std::span<const Interface> all, const std::string& route, const Wish& wish);

}  // namespace tutti::rendezvous
