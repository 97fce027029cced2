#include "rendezvous/unreachable.h"

#include <fmt/format.h>

#include <algorithm>

namespace tutti::rendezvous {
namespace {

const char* name_of_family(bool v6) { return v6 ? "IPv6" : "IPv4"; }

}  // namespace

Unreachable why_unreachable(std::span<const net::Address> addresses, std::span<const Interface> all) {
  if (addresses.empty()) return {};
  const auto is_v6_address = [](const net::Address& address) { return address.family() == AF_INET6; };
  const bool v6 = is_v6_address(addresses.front());
  const bool loopback = std::ranges::all_of(addresses, &net::Address::is_loopback);
  const auto is_loopback_up = [](const Interface& interface) { return interface.up && interface.loopback; };
  if (loopback && std::ranges::none_of(all, is_loopback_up))
    return {"the loopback interface of this host is down. Bring it up before the ranks start: ip link set lo up", true};
  if (std::ranges::any_of(addresses, [&](const net::Address& address) { return is_v6_address(address) != v6; }))
    return {};

  const auto has = [&](bool family) {
    return std::ranges::any_of(all, [&](const Interface& interface) {
      return interface.up && interface.loopback == loopback && is_v6(interface) == family && !is_link_local(interface);
    });
  };
  if (has(v6) || !has(!v6)) return {};
  return {fmt::format("{} of {} only, and this host has {} {}. Name an address of {}, or give this host {}",
                      loopback ? "that is an address" : "it has addresses", name_of_family(v6),
                      loopback ? "a loopback interface with" : "addresses of", name_of_family(!v6), name_of_family(!v6),
                      name_of_family(v6)),
          loopback};
}

}  // namespace tutti::rendezvous
