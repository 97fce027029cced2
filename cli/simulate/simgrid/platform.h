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

/// A network file as a platform of SimGrid: a host per rank, and as links that messages share what several ranks can
/// fill: the ports in which messages arrive, the links of hosts, those of leaf switches, each way one.
///
/// Switched off is what SimGrid knows of TCP: its model is CM02 with factors of 1, no window (TCP-gamma), no weights of
/// round trips (weight-S) and no acknowledgements (crosstraffic). Links have no latency, since a flow with a longer one
/// would get less of a link: who replays waits for it.
class Platform {
 public:
  Platform(const simulate::Network& network, int ranks);

  ::simgrid::s4u::Host* host(int rank) const { return hosts_[static_cast<std::size_t>(rank)]; }

 private:
  using Link = ::simgrid::s4u::Link;
  using Links = std::vector<Link*>;

  struct Port {
    Link* whole = nullptr;
    Link* part[2] = {nullptr, nullptr};  ///< of it, for messages of the nearer and the farther distance
  };

  Link* link(const std::string& name, double bytes_per_second);
  Port port(const std::string& name, simulate::Distance nearer);
  Links shared(const std::string& name, int groups, double picoseconds_per_byte);
  void add_routes(int from, int to);

  const simulate::Network& network_;
  ::simgrid::s4u::NetZone* zone_;
  Link* wire_;  ///< that all may use at once, as a route needs one
  std::vector<::simgrid::s4u::Host*> hosts_;
  std::vector<Port> inside_, outside_;
  Links host_out_, host_in_, leaf_out_, leaf_in_;
};

}  // namespace tutti::cli::simgrid
