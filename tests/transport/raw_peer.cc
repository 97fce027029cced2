#include "tests/transport/raw_peer.h"

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/time.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "lib/security/handshake_io.h"

namespace tutti::transport::testing {
namespace {

/// Of the family of that address.
net::Socket blocking_socket(const net::Address& address) {
  net::Socket socket(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(socket);
  return socket;
}

net::Address parsed(const std::string& address) {
  const auto where = net::parse_address(address);
  REQUIRE(where);
  return *where;
}

void limit_waits(const net::Socket& socket) {
  const timeval limit{.tv_sec = 10, .tv_usec = 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

}  // namespace

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

RawPeer::RawPeer(net::Socket socket) : socket_(std::move(socket)) { limit_waits(socket_); }

RawPeer::RawPeer(const std::string& address, std::string_view bytes) : RawPeer(blocking_socket(parsed(address))) {
  const net::Address where = parsed(address);
  REQUIRE(::connect(socket_.get(), where.get(), where.length) == 0);
  write(bytes);
}

void RawPeer::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (written <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

std::string RawPeer::read(std::size_t count) {
  std::string text(count, '\0');
  std::size_t have = 0;
  while (have < count) {
    const ssize_t got = ::recv(socket_.get(), text.data() + have, count - have, 0);
    if (got <= 0) break;
    have += static_cast<std::size_t>(got);
  }
  text.resize(have);
  return text;
}

bool RawPeer::closed_by_peer() {
  std::array<char, 256> room;
  for (;;) {
    const ssize_t got = ::recv(socket_.get(), room.data(), room.size(), MSG_DONTWAIT);
    if (got <= 0) return got == 0 || (errno != EAGAIN && errno != EINTR);
    heard_.append(room.data(), static_cast<std::size_t>(got));
  }
}

std::string RawPeer::say_hello(Handshake& handshake) {
  write(text_of(handshake.outgoing()));
  handshake.sent(Handshake::hello_size);
  std::string answer = read(Handshake::answer_size);
  std::memcpy(handshake.incoming().data(), answer.data(), answer.size());
  handshake.received(answer.size());
  return answer;
}

bool RawPeer::shake_hands(Handshake handshake, const std::function<void()>& meanwhile) {
  for (const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);;) {
    const int error = advance(handshake, socket_);
    if (error != EAGAIN) return error == 0 && handshake.state() == Handshake::State::done;
    if (std::chrono::steady_clock::now() > end) return false;
    if (meanwhile) {
      meanwhile();
    } else {
      std::this_thread::yield();
    }
  }
}

void RawPeer::reset() {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  socket_.reset();
}

RawListener::RawListener(Start when, const net::Address& at) : socket_(blocking_socket(at)) {
  limit_waits(socket_);
  REQUIRE(::bind(socket_.get(), at.get(), at.length) == 0);
  address_ = net::local_address(socket_).text();
  if (when == Start::now) start();
}

void RawListener::start() { REQUIRE(::listen(socket_.get(), 16) == 0); }

void RawListener::shorten_queue() { REQUIRE(::listen(socket_.get(), 0) == 0); }

RawPeer RawListener::accept() {
  net::Socket accepted(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  REQUIRE(accepted);
  return RawPeer(std::move(accepted));
}

}  // namespace tutti::transport::testing
