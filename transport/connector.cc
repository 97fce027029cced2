#include "transport/connector.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

#include "lib/security/handshake_io.h"
#include "transport/stream_socket.h"
#include "transport/transport.h"
#include "tutti/error.h"

namespace tutti::transport {
namespace {

using namespace std::chrono_literals;

/// Runs the connector to its end. 0: it has succeeded; else why not, ETIMEDOUT after `deadline`.
int finish(Connector& connector, Clock::time_point deadline) {
  for (;;) {
    const int error = connector.advance();
    if (error != EAGAIN) return error;
    if (!net::wait_until_ready(connector.socket(), connector.events(), deadline)) return ETIMEDOUT;
  }
}

}  // namespace

Connector::Connector(const net::Address& address, const Path& path) {
  socket_ = connect_to(address, path, refusal_);
  if (refusal_ == EINPROGRESS) refusal_ = 0;
}

Connector::Connector(const net::Address& address, const Secret& key, Hello hello,
                     std::shared_ptr<TlsProxies> tls_proxies, const Path& path)
    : Connector(address, path) {
  hello.encrypted = tls_proxies != nullptr;
  handshake_ = Handshake::initiate(key, hello);
  tls_proxies_ = std::move(tls_proxies);
}

int Connector::advance() noexcept {
  if (refusal_ != 0) return refusal_;
  if (!is_connected_) {
    const int error = net::connected(socket_);
    if (error != 0 || !handshake_) return error == EINPROGRESS ? EAGAIN : error;
    is_connected_ = true;
  }
  if (const int error = tutti::advance(*handshake_, socket_); error != 0) return error;
  if (handshake_->state() == Handshake::State::proved) {
    socket_ = tls_proxies_->encrypt(std::move(socket_), *handshake_);
    if (!socket_) return refusal_ = errno;
    if (const int error = tutti::advance(*handshake_, socket_); error != 0) return error;
  }
  return handshake_->state() == Handshake::State::done ? 0 : another_secret;
}

short Connector::events() const noexcept {
  return !is_connected_ || !handshake_->outgoing().empty() ? POLLOUT : POLLIN;
}

std::chrono::milliseconds pause_after(int attempts) {
  constexpr auto longest = 250ms;
  return std::min<std::chrono::milliseconds>(longest, 1ms * (1 << std::min(attempts, 10)));
}

net::Socket connect_authenticated(const std::string& address, const Secret& key, Hello hello,
                                  Clock::time_point deadline, const std::shared_ptr<TlsProxies>& tls_proxies) {
  const auto fail = [&](ErrorCode code, const std::string& why) {
    throw Error(code, fmt::format("rank {} cannot reach rank {} at {}: {}", hello.from, hello.to, address, why),
                code == ErrorCode::system ? hello.from : hello.to);
  };
  const auto where = net::parse_address(address);
  if (!where) fail(ErrorCode::peer_lost, "it is not an address like 10.0.0.1:4242 or unix:0002f");
  for (int attempts = 1;; ++attempts) {
    Connector connector{*where, key, hello, tls_proxies};
    const int error = finish(connector, deadline);
    if (error == 0) return connector.take();
    if (error == Connector::another_secret) fail(ErrorCode::peer_lost, Connector::another_secret_text);
    if (net::is_our_own(error)) fail(ErrorCode::system, net::text_of(error));
    const auto next = Clock::now() + pause_after(attempts);
    if (!worth_retrying(error) || next >= deadline)
      fail(ErrorCode::peer_lost, fmt::format("{}; gave up after {} attempts", net::text_of(error), attempts));
    std::this_thread::sleep_until(next);
  }
}

}  // namespace tutti::transport
