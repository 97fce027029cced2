#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/simulate/network.h"

namespace simgrid::s4u {
class Host;
class Link;
class NetZone;
}  // namespace simgrid::s4u

namespace tutti::cli::simgrid {

/// A network file as a platform of SimGrid, with a host per rank. Its shared links are those that several ranks can
/// fill. These are the ports in which messages arrive, the links of hosts, and those of leaf switches, one for each
/// direction.
///
/// SimGrid's model of TCP is switched off. The model is CM02 with factors of 1, no window (TCP-gamma), no weights of
/// round trips (weight-S) and no acknowledgements (crosstraffic). Links have no latency, since a flow with a longer one
/// would get less of a link: the replay waits for the latency itself.
class Platform {
 public:
  Platform(const simulate::Network& network, int ranks);

  ::simgrid::s4u::Host* host(int rank) const { return hosts_[static_cast<std::size_t>(rank)]; }

 private:
  using Link = ::simgrid::s4u::Link;
  using Links = std::vector<Link*>;

  struct Port {
    Link* whole = nullptr;
    Link* part[2] = {nullptr, nullptr};  ///< the shared link, for messages of the nearer and the farther distance
  };

  Link* link(const std::string& name, double bytes_per_second);
  Port port(const std::string& name, simulate::Distance nearer);
  Links shared(const std::string& name, int groups, double picoseconds_per_byte);
  void add_routes(int from, int to);

  const simulate::Network& network_;
  ::simgrid::s4u::NetZone* zone_;
  Link* wire_;  ///< a link without limits, since a route needs one
  std::vector<::simgrid::s4u::Host*> hosts_;
  std::vector<Port> inside_, outside_;
  Links host_out_, host_in_, leaf_out_, leaf_in_;
};

}  // namespace tutti::cli::simgrid
