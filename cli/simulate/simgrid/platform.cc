#include "cli/simulate/simgrid/platform.h"

#include <algorithm>
#include <simgrid/s4u.hpp>
#include <string>

namespace tutti::cli::simgrid {
namespace {

using simulate::Distance;
using simulate::Network;

constexpr double second = 1e12;           // picoseconds
constexpr double unlimited = 1e15;        // bytes per second
constexpr double work_per_second = 1e12;  // work is counted in picoseconds

void configure() {
  using ::simgrid::s4u::Engine;
  Engine::set_config("network/model:CM02");
  Engine::set_config("network/bandwidth-factor:1");
  Engine::set_config("network/latency-factor:1");
  Engine::set_config("network/TCP-gamma:0");
  Engine::set_config("network/weight-S:0");
  Engine::set_config("network/crosstraffic:no");
  Engine::set_config("surf/precision:1e-12");  // seconds
  Engine::set_config("maxmin/precision:1e-9");
  Engine::set_config("contexts/stack-size:64");  // KiB: there is an actor for every step
  Engine::set_config("contexts/guard-size:0");
}

/// The size of messages for which the bandwidth is highest.
double bandwidth(const Network& network, Distance distance) {
  double found = 0;
  for (const Network::Tier& tier : network.links[static_cast<std::size_t>(distance)])
    found = std::max(found, tier.per_byte > 0 ? second / tier.per_byte : unlimited);
  return found;
}

}  // namespace

Platform::Platform(const Network& network, int ranks) : network_(network) {
  configure();
  zone_ = ::simgrid::s4u::create_full_zone("network");
  wire_ = link("wire", unlimited)->set_sharing_policy(Link::SharingPolicy::FATPIPE);
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string name = std::to_string(rank);
    hosts_.push_back(zone_->create_host(name, work_per_second)->seal());
    inside_.push_back(port("inside " + name, Distance::socket));
    outside_.push_back(port("outside " + name, Distance::leaf));
  }
  const auto groups = [&](int size) { return (ranks + size - 1) / size; };
  host_out_ = shared("host out ", groups(network.host), network.shared_host);
  host_in_ = shared("host in ", groups(network.host), network.shared_host);
  leaf_out_ = shared("leaf out ", groups(network.leaf), network.shared_leaf);
  leaf_in_ = shared("leaf in ", groups(network.leaf), network.shared_leaf);
  for (int from = 0; from < ranks; ++from)
    for (int to = 0; to < ranks; ++to)
      if (from != to) add_routes(from, to);
  zone_->seal();
}

Platform::Link* Platform::link(const std::string& name, double bytes_per_second) {
  return zone_->create_link(name, bytes_per_second);
}

Platform::Port Platform::port(const std::string& name, Distance nearer) {
  const double near = bandwidth(network_, nearer);
  const double far = bandwidth(network_, static_cast<Distance>(static_cast<int>(nearer) + 1));
  return {link(name, std::max(near, far)), {link(name + " near", near), link(name + " far", far)}};
}

Platform::Links Platform::shared(const std::string& name, int groups, double picoseconds_per_byte) {
  Links found;
  if (picoseconds_per_byte > 0)
    for (int group = 0; group < groups; ++group)
      found.push_back(link(name + std::to_string(group), second / picoseconds_per_byte));
  return found;
}

void Platform::add_routes(int from, int to) {
  const Distance distance = network_.distance(from, to);
  Links route{wire_};
  const auto pass = [&](const Links& shared, int group) {
    if (!shared.empty()) route.push_back(shared[static_cast<std::size_t>(group)]);
  };
  if (distance >= Distance::leaf) pass(host_out_, from / network_.host);
  if (distance == Distance::far) {
    pass(leaf_out_, from / network_.leaf);
    pass(leaf_in_, to / network_.leaf);
  }
  if (distance >= Distance::leaf) pass(host_in_, to / network_.host);
  const Port& port = (distance >= Distance::leaf ? outside_ : inside_)[static_cast<std::size_t>(to)];
  route.push_back(port.whole);
  route.push_back(port.part[static_cast<std::size_t>(distance) % 2]);
  std::vector<::simgrid::s4u::LinkInRoute> links;
  for (const Link* const one : route) links.emplace_back(one);
  zone_->add_route(host(from)->get_netpoint(), host(to)->get_netpoint(), nullptr, nullptr, links, false);
}

}  // namespace tutti::cli::simgrid
