#include "lib/base/net/address.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <array>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <system_error>

namespace tutti::net {
namespace {

template <class Form>
Form as(const sockaddr_storage& storage) {
  Form form{};
  std::memcpy(&form, &storage, sizeof form);
  return form;
}

template <class Form>
Address from(const Form& form) {
  Address address;
  std::memcpy(&address.storage, &form, sizeof form);
  address.length = sizeof form;
  return address;
}

/// The number of the interface that follows the "%" of an address; 0: there is no such interface.
std::uint32_t scope_of(const std::string& interface) {
  if (const unsigned index = ::if_nametoindex(interface.c_str()); index != 0) return index;
  std::uint32_t number = 0;
  std::from_chars(interface.data(), interface.data() + interface.size(), number);
  return number;
}

}  // namespace

bool Address::is_loopback() const {
  if (family() == AF_INET) return (ntohl(as<sockaddr_in>(storage).sin_addr.s_addr) >> 24) == 127;
  const auto v6 = as<sockaddr_in6>(storage);
  return family() == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
}

std::string Address::host() const {
  std::array<char, NI_MAXHOST> host{};
  const int failed = ::getnameinfo(get(), length, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST);
  return failed == 0 ? host.data() : "";
}

std::uint16_t Address::port() const {
  return ntohs(family() == AF_INET ? as<sockaddr_in>(storage).sin_port : as<sockaddr_in6>(storage).sin6_port);
}

void Address::set_port(std::uint16_t port) {
  const std::uint16_t in_network_order = htons(port);
  const std::size_t offset = family() == AF_INET ? offsetof(sockaddr_in, sin_port) : offsetof(sockaddr_in6, sin6_port);
  std::memcpy(reinterpret_cast<std::byte*>(&storage) + offset, &in_network_order, sizeof in_network_order);
}

std::string Address::text() const { return with_brackets(host()) + ":" + std::to_string(port()); }

bool operator==(const Address& one, const Address& other) {
  return one.length == other.length && std::memcmp(&one.storage, &other.storage, one.length) == 0;
}

std::optional<Address> parse_address(const std::string& host, std::uint16_t port) {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  if (::inet_pton(AF_INET, host.c_str(), &v4.sin_addr) == 1) return from(v4);
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  const std::size_t percent = host.find('%');
  if (percent != std::string::npos) v6.sin6_scope_id = scope_of(host.substr(percent + 1));
  if (::inet_pton(AF_INET6, host.substr(0, percent).c_str(), &v6.sin6_addr) == 1) return from(v6);
  return std::nullopt;
}

std::optional<Address> parse_address(std::string_view text) {
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return std::nullopt;
  }
  std::uint16_t port = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, failure] = std::from_chars(text.data() + colon + 1, end, port);
  if (failure != std::errc{} || stopped != end || port == 0) return std::nullopt;
  return parse_address(std::string{host}, port);
}

std::string with_brackets(const std::string& host) {
  return host.find(':') == std::string::npos ? host : "[" + host + "]";
}

}  // namespace tutti::net
