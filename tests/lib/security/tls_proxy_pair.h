#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "lib/security/tls_proxy.h"
#include "tests/support/sizes.h"

namespace tutti::testing {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Side = TlsProxies::Side;

inline constexpr auto patience = 10s;

inline Digest key_of(unsigned char seed) {
  Digest key;
  key.fill(static_cast<std::byte>(seed));
  return key;
}

inline std::pair<Descriptor, Descriptor> connected_sockets() {
  std::array<int, 2> ends{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) == 0);
  return {Descriptor{ends[0]}, Descriptor{ends[1]}};
}

/// The second has little room for what it does not read.
inline std::pair<Descriptor, Descriptor> connected_tcp_sockets() {
  const Descriptor listener{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  Descriptor first{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const int little = 4096;
  REQUIRE(::setsockopt(listener.get(), SOL_SOCKET, SO_RCVBUF, &little, sizeof little) == 0);
  REQUIRE(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0);
  REQUIRE(::listen(listener.get(), 1) == 0);
  REQUIRE(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  REQUIRE(::connect(first.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0);
  Descriptor second{::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
  REQUIRE(::fcntl(first.get(), F_SETFL, O_NONBLOCK) == 0);
  return {std::move(first), std::move(second)};
}

inline bool wait_for(const Descriptor& end, short events, std::chrono::milliseconds limit = patience) {
  pollfd query{end.get(), events, 0};
  return ::poll(&query, 1, static_cast<int>(limit.count())) > 0;
}

/// 0, or why not.
inline int wait_until_ready(const Descriptor& end) {
  int error = EAGAIN;
  while (error == EAGAIN && wait_for(end, POLLIN)) error = TlsProxies::is_ready(end.get());
  return error;
}

inline bool write_all(const Descriptor& end, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(end.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) bytes.remove_prefix(static_cast<std::size_t>(sent));
    if (sent < 0 && (errno != EAGAIN || !wait_for(end, POLLOUT))) return false;
  }
  return true;
}

/// `count` bytes, or what came before the end.
inline std::string read(const Descriptor& end, std::size_t count) {
  std::string bytes(count, '\0');
  std::size_t size = 0;
  while (size < count) {
    const ssize_t got = ::recv(end.get(), bytes.data() + size, count - size, 0);
    if (got > 0) size += static_cast<std::size_t>(got);
    if (got == 0 || (got < 0 && (errno != EAGAIN || !wait_for(end, POLLIN)))) break;
  }
  bytes.resize(size);
  return bytes;
}

/// The stream has ended, in order or not, and nothing came before that.
inline bool has_ended(const Descriptor& end) {
  char byte = 0;
  ssize_t got = -1;
  while ((got = ::recv(end.get(), &byte, 1, 0)) < 0 && errno == EAGAIN)
    if (!wait_for(end, POLLIN)) return false;
  return got == 0 || (got < 0 && errno == ECONNRESET);
}

inline bool await(const std::function<bool()>& done) {
  for (const auto deadline = Clock::now() + patience; !done(); std::this_thread::sleep_for(1ms))
    if (Clock::now() >= deadline) return false;
  return true;
}

inline std::string text(std::size_t size) {
  constexpr std::string_view words = "what a rank sends to another one concerns nobody else; ";
  std::string made;
  while (made.size() < size) made += words;
  made.resize(size);
  return made;
}

/// Two users and their services.
struct Pair {
  explicit Pair(const Digest& second_key = key_of(1), std::pair<Descriptor, Descriptor> wire = connected_sockets())
      : Pair(second_key, std::move(wire.first), std::move(wire.second)) {}
  Pair(const Digest& second_key, Descriptor first_wire, Descriptor second_wire)
      : first(one->encrypt(std::move(first_wire), Side::client, key_of(1))),
        second(other->encrypt(std::move(second_wire), Side::server, second_key)) {}

  bool ready() const { return wait_until_ready(first) == 0 && wait_until_ready(second) == 0; }

  std::unique_ptr<TlsProxies> one = std::make_unique<TlsProxies>();
  std::unique_ptr<TlsProxies> other = std::make_unique<TlsProxies>();
  Descriptor first;
  Descriptor second;
};

}  // namespace tutti::testing
