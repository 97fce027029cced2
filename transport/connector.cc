#include "transport/connector.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "lib/security/handshake_io.h"

namespace tutti::transport {

using namespace std::chrono_literals;

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

}  // namespace tutti::transport
