#include "lib/base/net/address.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <system_error>

namespace tutti::net {
namespace {

constexpr std::string_view unix_prefix = "unix:";
constexpr std::size_t name_offset = offsetof(sockaddr_un, sun_path) + 1;  // an abstract name follows a zero byte

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

std::string Address::name() const {
  if (!is_unix() || length <= name_offset) return "";
  return {reinterpret_cast<const char*>(&storage) + name_offset, length - name_offset};
}

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

std::string Address::text() const {
  if (is_unix()) return std::string{unix_prefix} + name();
  return with_brackets(host()) + ":" + std::to_string(port());
}

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
  if (text.starts_with(unix_prefix)) {
    const std::string_view name = text.substr(unix_prefix.size());
    if (name.find_first_not_of("0123456789abcdef") != std::string_view::npos) return std::nullopt;
    return unix_address(name);
  }
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

std::optional<Address> unix_address(std::string_view name) {
  sockaddr_un form{};
  form.sun_family = AF_UNIX;
  if (name.empty() || name.size() + 1 > sizeof form.sun_path) return std::nullopt;
  std::ranges::copy(name, form.sun_path + 1);
  Address address = from(form);
  address.length = static_cast<socklen_t>(name_offset + name.size());
  return address;
}

Address any_unix_address() {
  Address address;
  address.storage.ss_family = AF_UNIX;
  address.length = sizeof(sa_family_t);  // no name at all
  return address;
}

std::string with_brackets(const std::string& host) {
  return host.find(':') == std::string::npos ? host : "[" + host + "]";
}

}  // namespace tutti::net
