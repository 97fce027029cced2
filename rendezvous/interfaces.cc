// Chooses the address of this host that peers are given.
//
// The kernel knows the route to the rendezvous: a UDP socket connected there has a local address, and no packet is
// sent. If the user names interfaces, only these are candidates, and the route decides among them.

#include "rendezvous/interfaces.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

#include "lib/base/environment.h"
#include "lib/base/system_error_text.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/store_socket.h"
#include "tutti/error.h"

namespace tutti::rendezvous {

bool is_v6(const Interface& interface) { return interface.address.find(':') != std::string::npos; }

bool is_link_local(const Interface& interface) { return interface.address.starts_with("fe80:"); }

namespace {

std::vector<std::string_view> split(std::string_view list) {
  std::vector<std::string_view> words;
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    if (comma > 0) words.push_back(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return words;
}

/// "eth,ib" prefixes, "=eth0" exact names, "^docker" all but these, "^=eth0" all but exactly this.
class NameFilter {
 public:
  NameFilter(std::string_view said_by, std::string_view text, bool exact)
      : said_by_(said_by), text_(text), exact_(exact) {
    std::string_view rest = text_;
    if (rest.starts_with('^')) {
      exclude_ = true;
      rest.remove_prefix(1);
    }
    if (rest.starts_with('=')) {
      exact_ = true;
      rest.remove_prefix(1);
    }
    for (const std::string_view word : split(rest)) names_.emplace_back(word);
  }

  bool accepts(const std::string& interface) const {
    const bool listed = place_of(interface) < names_.size();
    return listed != exclude_;
  }
  bool excludes() const { return exclude_; }
  /// It says which interfaces tutti shall use, all of them.
  bool names_ours() const { return !exclude_ && !is_foreign(); }
  const std::vector<std::string>& names() const { return names_; }
  bool matches(const std::string& name, const std::string& interface) const {
    return exact_ ? interface == name : interface.starts_with(name);
  }
  /// Which of the listed names accepts it.
  std::size_t place_of(const std::string& interface) const {
    const auto found = std::ranges::find_if(names_, [&](const auto& name) { return matches(name, interface); });
    return static_cast<std::size_t>(found - names_.begin());
  }
  /// The variable is meant for another library.
  bool is_foreign() const { return !said_by_.starts_with("TUTTI_"); }
  std::string describe() const { return fmt::format("{}={}", said_by_, text_); }

 private:
  std::string said_by_;
  std::string text_;
  bool exact_;
  bool exclude_ = false;
  std::vector<std::string> names_;
};

std::optional<NameFilter> name_filter(const Lookup& environment) {
  for (const char* variable : {"TUTTI_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"})
    if (const auto text = environment(variable); text && !text->empty()) return NameFilter{variable, *text, false};
  if (const auto text = environment("GLOO_SOCKET_IFNAME"); text && !text->empty())
    return NameFilter{"GLOO_SOCKET_IFNAME", *text, true};
  return std::nullopt;
}

/// Empty: either family.
std::optional<bool> want_v6(const Lookup& environment) {
  const std::string family = environment("TUTTI_SOCKET_FAMILY").value_or("");
  if (family.empty()) return std::nullopt;
  return environment::word_in("TUTTI_SOCKET_FAMILY", family) == 1;
}

/// Order of preference, lowest first, where no route decides: interfaces that lead out of this host, then those made by
/// containers, then loopback.
int reluctance(const Interface& interface) {
  const bool of_containers = interface.name.starts_with("docker") || interface.name.starts_with("virbr") ||
                             interface.name.starts_with("veth") || interface.name.starts_with("br-");
  return (interface.loopback ? 4 : 0) + (of_containers ? 2 : 0) + (is_v6(interface) ? 1 : 0);
}

std::string list_of(std::span<const Interface> all) {
  std::string list;
  for (const Interface& interface : all)
    list += fmt::format("{}{} {}{}", list.empty() ? "" : ", ", interface.name, interface.address,
                        interface.up ? "" : " (down)");
  return list.empty() ? "none" : list;
}

Error no_match(std::span<const Interface> all, const std::optional<NameFilter>& filter, std::optional<bool> v6) {
  return {
      ErrorCode::invalid_argument,
      fmt::format("no network interface matches{}{}. This host has: {}.{}", filter ? " " + filter->describe() : "",
                  v6 ? fmt::format(" TUTTI_SOCKET_FAMILY={}", *v6 ? "AF_INET6" : "AF_INET") : "", list_of(all),
                  filter && filter->is_foreign() ? " TUTTI_SOCKET_IFNAME takes precedence over that variable." : "")};
}

/// 0.0.0.0 or ::, at which rank 0 may serve: all addresses of this host.
bool is_unspecified(const net::Address& address) {
  return address.host() == (address.family() == AF_INET6 ? "::" : "0.0.0.0");
}

/// The address from which packets to the rendezvous would leave; empty without a TCP rendezvous or a route. If this
/// host's own name leads to loopback, that says nothing about the peers, so it counts as no route. So does an address
/// that stands for all of this host's, whose packets stay on loopback.
std::string route_to(const std::string& url, std::optional<bool> v6) {
  const std::size_t scheme_end = url.find("://");
  const std::string scheme = url.substr(0, scheme_end);
  if (scheme != "tcp" && scheme != "store") return {};
  const Endpoint endpoint = parse_endpoint(std::string_view{url}.substr(scheme_end + 3), "the rendezvous");
  const Resolved resolved = resolve(endpoint, std::chrono::steady_clock::now() + std::chrono::seconds{30});
  const bool loopback_is_meant = is_written_loopback(endpoint.host);
  for (const net::Address& address : resolved.addresses) {
    if (is_unspecified(address) || (address.is_loopback() && !loopback_is_meant)) continue;
    if (v6 && *v6 != (address.family() == AF_INET6)) continue;
    const Descriptor socket{::socket(address.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0)};
    if (socket && ::connect(socket.get(), address.get(), address.length) == 0) return net::local_address(socket).host();
  }
  return {};
}

}  // namespace

std::vector<Interface> interfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) throw Error{ErrorCode::system, "cannot list the network interfaces: " + refusal(errno)};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner{list, &::freeifaddrs};
  std::vector<Interface> result;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    net::Address address;
    if (entry->ifa_addr->sa_family == AF_INET)
      address.length = sizeof(sockaddr_in);
    else if (entry->ifa_addr->sa_family == AF_INET6)
      address.length = sizeof(sockaddr_in6);
    else
      continue;
    std::memcpy(&address.storage, entry->ifa_addr, address.length);
    result.push_back(
        {entry->ifa_name, address.host(), (entry->ifa_flags & IFF_LOOPBACK) != 0, (entry->ifa_flags & IFF_UP) != 0});
  }
  return result;
}

bool is_on_one_host(const Launch& launch) {
  if (launch.local_size == launch.size || launch.own_folder) return true;
  constexpr std::string_view tcp = "tcp://";
  if (!launch.rendezvous.starts_with(tcp)) return false;
  return is_written_loopback(parse_endpoint(std::string_view{launch.rendezvous}.substr(tcp.size()), "").host);
}

Choice choose_interface(const std::string& url, const Wish& wish) {
  return choose_among(interfaces(), route_to(url, want_v6(wish.environment)), wish);
}

namespace {

/// The best interface that the filter accepts, if any.
std::optional<Interface> best_of(std::span<const Interface> all, const std::string& route,
                                 const std::optional<NameFilter>& filter, std::optional<bool> v6) {
  std::vector<Interface> candidates;
  for (const Interface& interface : all) {
    if (!interface.up || is_link_local(interface)) continue;
    if (v6 && *v6 != is_v6(interface)) continue;
    if (filter && !filter->accepts(interface.name)) continue;
    candidates.push_back(interface);
  }
  // The source address of a packet to this host may be any loopback address (127.0.0.1 also stands for 127.0.1.1).
  const auto on_route = [&](const Interface& interface) { return interface.address == route; };
  if (const auto it = std::find_if(candidates.begin(), candidates.end(), on_route); it != candidates.end()) return *it;

  const bool remote = !route.empty() && std::none_of(all.begin(), all.end(), [&](const Interface& interface) {
    return interface.loopback && interface.address == route;
  });
  const bool named = filter && !filter->excludes();
  if (remote && !named) std::erase_if(candidates, [](const Interface& interface) { return interface.loopback; });
  if (candidates.empty()) return std::nullopt;
  return *std::min_element(candidates.begin(), candidates.end(),
                           [](const Interface& a, const Interface& b) { return reluctance(a) < reluctance(b); });
}

/// One address of each interface that the filter names besides `best`, of which peers may use all.
std::vector<Interface> named_besides(const Interface& best, std::span<const Interface> all,
                                     const std::optional<NameFilter>& filter) {
  std::vector<Interface> named;
  if (!filter || !filter->names_ours()) return named;
  for (const Interface& interface : all) {
    const bool fits = interface.up && !is_link_local(interface) && is_v6(interface) == is_v6(best) &&
                      interface.loopback == best.loopback && filter->accepts(interface.name);
    const bool is_new = interface.name != best.name && !std::ranges::count(named, interface.name, &Interface::name);
    if (fits && is_new) named.push_back(interface);
  }
  std::ranges::stable_sort(named, {}, [&](const Interface& one) { return filter->place_of(one.name); });
  return named;
}

/// The names of the filter to which none of `used` belongs.
std::vector<std::string> names_without(std::span<const Interface> used, const NameFilter& filter) {
  std::vector<std::string> without = filter.names();
  std::erase_if(without, [&](const std::string& name) {
    return std::ranges::any_of(used, [&](const Interface& one) { return filter.matches(name, one.name); });
  });
  return without;
}

std::string families(std::span<const Interface> all) {
  std::string found;
  for (const bool v6 : {false, true})
    if (std::ranges::any_of(all, [v6](const Interface& interface) {
          return interface.up && !interface.loopback && !is_link_local(interface) && is_v6(interface) == v6;
        }))
      found += v6 ? '6' : '4';
  return found;
}

}  // namespace

Choice choose_among(std::span<const Interface> all, const std::string& route, const Wish& wish) {
  const auto filter = name_filter(wish.environment);
  const auto v6 = want_v6(wish.environment);
  if (auto best = best_of(all, route, filter, v6)) {
    Choice choice{*best, "", families(all), named_besides(*best, all, filter)};
    if (!filter || !filter->names_ours()) return choice;
    std::vector<Interface> used = choice.others;
    used.push_back(*best);
    choice.without = names_without(used, *filter);
    return choice;
  }
  if (filter && filter->is_foreign() && wish.one_host)
    if (auto best = best_of(all, route, std::nullopt, v6))
      return {*std::move(best),
              fmt::format("{} matches no network interface and is ignored, as all ranks are on this host, "
                          "which has: {}",
                          filter->describe(), list_of(all))};
  throw no_match(all, filter, v6);
}

}  // namespace tutti::rendezvous
