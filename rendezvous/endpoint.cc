#include "rendezvous/endpoint.h"

#include <fmt/format.h>
#include <netdb.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <future>
#include <memory>

#include "lib/base/background_thread.h"
#include "lib/base/service_links.h"
#include "lib/base/wait_hook.h"
#include "tutti/error.h"

namespace tutti::rendezvous {
namespace {

Error malformed(std::string_view said_by, std::string_view text, std::string_view what) {
  return {ErrorCode::invalid_argument, fmt::format("{} is \"{}\": {}.", said_by, text, what)};
}

void add_new(std::vector<net::Address>& addresses, const net::Address& address) {
  if (std::ranges::find(addresses, address) == addresses.end()) addresses.push_back(address);
}

Resolved look_up(const Endpoint& endpoint, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* list = nullptr;
  const int failed = ::getaddrinfo(endpoint.host.c_str(), std::to_string(endpoint.port).c_str(), &hints, &list);
  Resolved resolved;
  if (failed != 0) {
    resolved.problem = fmt::format("cannot resolve the name {}: {}", endpoint.host, ::gai_strerror(failed));
    return resolved;
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner{list, &::freeaddrinfo};
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    net::Address address;
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.length = entry->ai_addrlen;
    add_new(resolved.addresses, address);
  }
  return resolved;
}

}  // namespace

std::uint16_t parse_port(std::string_view text, std::string_view said_by, std::string_view whole) {
  if (whole.empty()) whole = text;
  if (is_service_address(text))
    throw malformed(said_by, whole,
                    "that is not a port but the address of a Kubernetes service, which Kubernetes sets in every pod (a "
                    "\"service link\"). Say enableServiceLinks: false in the pod's spec, or set this variable in the "
                    "pod's env, or give the service another name");
  std::uint16_t port = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc{} || rest != text.data() + text.size())
    throw malformed(said_by, whole, "a port is a number from 0 to 65535");
  return port;
}

Endpoint parse_endpoint(std::string_view text, std::string_view said_by, std::string_view whole) {
  if (whole.empty()) whole = text;
  std::string_view host;
  std::string_view port;
  if (text.starts_with('[')) {
    const std::size_t end = text.find("]:");
    if (end == std::string_view::npos) throw malformed(said_by, whole, "expected [IPv6 address]:port");
    host = text.substr(1, end - 1);
    port = text.substr(end + 2);
  } else {
    const std::size_t colon = text.find(':');
    if (colon == std::string_view::npos) throw malformed(said_by, whole, "the port is missing; expected host:port");
    if (text.find(':', colon + 1) != std::string_view::npos)
      throw malformed(said_by, whole, "an IPv6 address must be in brackets, such as [::1]:29500");
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
  }
  if (host.empty()) throw malformed(said_by, whole, "the host is missing; expected host:port");
  if (host.find_first_of("[]") != std::string_view::npos)
    throw malformed(said_by, whole, "only an IPv6 address has brackets, and only once: [::1]:29500");
  if (port.empty()) throw malformed(said_by, whole, "the port is missing; expected host:port");
  return {std::string{host}, parse_port(port, said_by, whole)};
}

Endpoint endpoint_of(const net::Address& address) { return {address.host(), address.port()}; }

std::string to_string(const Endpoint& endpoint) {
  return fmt::format("{}:{}", net::with_brackets(endpoint.host), endpoint.port);
}

std::string without_brackets(const std::string& host) {
  const bool brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  return brackets ? host.substr(1, host.size() - 2) : host;
}

namespace {

/// Asks /etc/hosts and the name servers.
Resolved look_up_name(const Endpoint& endpoint) {
  Resolved found = look_up(endpoint, 0);
  if (endpoint.host != "localhost") return found;
  // A chroot without /etc/hosts cannot resolve localhost, and many /etc/hosts files have it for one family only. Server
  // and client, or two hosts, could then resolve it differently.
  for (const char* loopback : {"127.0.0.1", "::1"})
    for (const net::Address& address : look_up({loopback, endpoint.port}, AI_NUMERICHOST).addresses)
      add_new(found.addresses, address);
  if (!found.addresses.empty()) found.problem.clear();
  return found;
}

}  // namespace

Resolved resolve(const Endpoint& endpoint, Deadline deadline) {
  Resolved numeric = look_up(endpoint, AI_NUMERICHOST);
  if (!numeric.addresses.empty()) return numeric;
  // getaddrinfo() has no deadline, so a thread of its own makes the call. At the deadline that thread is left behind.
  std::promise<Resolved> promise;
  std::future<Resolved> answer = promise.get_future();
  start_thread_without_signals([endpoint, promise = std::move(promise)]() mutable {
    promise.set_value(look_up_name(endpoint));
  }).detach();
  while (answer.wait_until(next_question(deadline)) != std::future_status::ready) {
    if (std::chrono::steady_clock::now() >= deadline)
      return {{}, fmt::format("the name server did not answer for {}", endpoint.host)};
    end_if_program_interrupts();
  }
  return answer.get();
}

bool is_written_loopback(const std::string& host) {
  if (host == "localhost") return true;
  const Resolved numeric = look_up({host, 0}, AI_NUMERICHOST);
  return !numeric.addresses.empty() && numeric.addresses.front().is_loopback();
}

std::string hidden_loopback(const Endpoint& endpoint, Deadline deadline) {
  if (is_written_loopback(endpoint.host)) return {};
  const Resolved found = resolve(endpoint, deadline);
  if (found.addresses.empty() || !found.addresses.front().is_loopback()) return {};
  return found.addresses.front().host();
}

}  // namespace tutti::rendezvous
