#include "transport/tcp/tcp_context.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "transport/tcp/in_link.h"

namespace tutti::transport::tcp {

void TcpContext::lose(Link& link, Certainty certainty, const Error& reason) {
  losses.push_back({&link, reason, certainty});
}

InLink* TcpContext::unshared(int peer, Channel channel) const {
  for (const auto& link : in_links)
    if (link->peer() == peer && link->channel() == channel && link->is_unshared()) return link.get();
  return nullptr;
}

std::string TcpContext::name_of(int peer) const {
  return fmt::format("rank {} (tcp, {})", peer, address_of(peer).empty() ? "no address" : address_of(peer));
}

const std::string& TcpContext::address_of(int peer) const {
  static const std::string none;
  return std::cmp_less(peer, addresses.size()) ? addresses[static_cast<std::size_t>(peer)] : none;
}

bool TcpContext::is_within_host(int peer) const {
  return std::cmp_less(peer, within_host.size()) && within_host[static_cast<std::size_t>(peer)];
}

std::vector<net::Address> TcpContext::addresses_of(int peer) const {
  std::vector<net::Address> parsed;
  std::stringstream list{address_of(peer)};
  for (std::string text; std::getline(list, text, ',');) {
    const auto address = net::parse_address(text);
    if (!address) return {};
    parsed.push_back(*address);
  }
  return parsed;
}

std::size_t TcpContext::places_shared_with(std::span<const net::Address> theirs) const {
  return std::clamp<std::size_t>(own_addresses.size(), 1, theirs.size());
}

int TcpContext::reason_of_end(std::span<const net::Socket> sockets, int error) const {
  if (!tls_proxies) return error;
  for (const net::Socket& socket : sockets)
    if (const int behind = tls_proxies->error_behind(socket); behind != 0) return behind;
  return error;
}

Path TcpContext::path_to(int peer, std::size_t place) const {
  Path path{.congestion = is_within_host(peer) ? transport::within_host(congestion) : congestion};
  if (connections > 1 && !own_addresses.empty()) path.from = own_addresses[place];
  return path;
}

std::vector<net::Socket> duplicates(const std::vector<net::Socket>& sockets) noexcept {
  std::vector<net::Socket> twins;
  for (const net::Socket& socket : sockets) {
    twins.push_back(socket.duplicate());
    if (!twins.back()) return {};
  }
  return twins;
}

}  // namespace tutti::transport::tcp
