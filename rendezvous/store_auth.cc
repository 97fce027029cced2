#include "rendezvous/store_auth.h"

#include <sys/socket.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "lib/base/system_error_text.h"
#include "rendezvous/tcp_protocol.h"
#include "tutti/error.h"

namespace tutti::rendezvous {
namespace {

/// Bytes that one call moved. 0: nothing can be moved now. -1: the connection is of no more use.
ssize_t receive(int socket, std::span<std::byte> bytes) {
  for (;;) {
    const ssize_t got = ::recv(socket, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got > 0) return got;
    if (got < 0 && errno == EINTR) continue;
    return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? 0 : -1;
  }
}

ssize_t send(int socket, std::span<const std::byte> bytes) {
  for (;;) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) return sent;
    if (errno == EINTR) continue;
    return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -1;
  }
}

}  // namespace

Secret store_key(const Secret& secret) { return secret.empty() ? Secret{} : secret.derive("tutti store"); }

StoreAuth::Step StoreAuth::advance(int socket) noexcept {
  while (!begun_) {
    std::byte op{};
    const ssize_t got = receive(socket, {&op, 1});
    if (got == 0) return Step::wait_to_read;
    was_plain_ = got > 0 && op != op_authenticate;
    if (got < 0 || was_plain_) return Step::refused;
    begun_ = true;
  }
  while (handshake_.state() == Handshake::State::under_way) {
    const bool writing = !handshake_.outgoing().empty();
    const ssize_t moved = writing ? send(socket, handshake_.outgoing()) : receive(socket, handshake_.incoming());
    if (moved < 0) return Step::refused;
    if (moved == 0) return writing ? Step::wait_to_write : Step::wait_to_read;
    if (writing) {
      handshake_.sent(static_cast<std::size_t>(moved));
    } else {
      handshake_.received(static_cast<std::size_t>(moved));
    }
  }
  return handshake_.state() == Handshake::State::done ? Step::admitted : Step::refused;
}

namespace {

Proof outcome(Transfer transfer) {
  return transfer == Transfer::done ? Proof::done : transfer == Transfer::timed_out ? Proof::timed_out : Proof::closed;
}

}  // namespace

Proof prove(Descriptor& socket, Receiver& receiver, const Secret& key, Deadline deadline, TlsProxies* tls_proxies) {
  Handshake handshake = Handshake::initiate(key, {.purpose = Purpose::store, .encrypted = tls_proxies != nullptr});
  std::string_view prefix{reinterpret_cast<const char*>(&op_authenticate), 1};
  while (handshake.state() == Handshake::State::under_way) {
    Transfer transfer = Transfer::done;
    if (const auto bytes = handshake.outgoing(); !bytes.empty()) {
      std::string message{prefix};
      message.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      prefix = {};
      transfer = send_all(socket, message, deadline);
      handshake.sent(bytes.size());
    } else {
      const auto room = handshake.incoming();
      transfer = receiver.recv_all({reinterpret_cast<char*>(room.data()), room.size()}, deadline);
      if (transfer == Transfer::done) handshake.received(room.size());
    }
    if (transfer != Transfer::done) return outcome(transfer);
  }
  if (handshake.state() != Handshake::State::done) return Proof::refused;
  if (tls_proxies == nullptr) return Proof::done;
  socket = tls_proxies->encrypt(std::move(socket), handshake);
  if (!socket) throw Error{ErrorCode::system, "cannot encrypt the connection to the store: " + refusal(errno)};
  char ready{};
  return outcome(receiver.recv_all({&ready, 1}, deadline));
}

}  // namespace tutti::rendezvous
