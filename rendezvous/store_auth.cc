#include "rendezvous/store_auth.h"

#include <cerrno>
#include <string_view>
#include <utility>

#include "lib/base/system_error_text.h"
#include "lib/security/handshake_io.h"
#include "rendezvous/tcp_protocol.h"
#include "tutti/error.h"

namespace tutti::rendezvous {

Secret store_key(const Secret& secret) { return secret.empty() ? Secret{} : secret.derive("tutti store"); }

StoreAuth::Step StoreAuth::advance(net::SocketView socket) noexcept {
  while (!begun_) {
    std::byte op{};
    const net::Moved got = net::read_some(socket, std::span{&op, 1});
    if (got.error == EAGAIN) return Step::wait_to_read;
    was_plain_ = got.bytes > 0 && op != op_authenticate;
    if (got.failed() || was_plain_) return Step::refused;
    begun_ = true;
  }
  int error = 0;
  if (handshake_.state() == Handshake::State::proved) {
    error = TlsProxies::is_ready(socket.get());
    if (error == 0) handshake_.encrypted();
  }
  if (error == 0) error = tutti::advance(handshake_, socket);
  if (error == EAGAIN) return handshake_.outgoing().empty() ? Step::wait_to_read : Step::wait_to_write;
  if (error != 0 || handshake_.state() == Handshake::State::refused) return Step::refused;
  return handshake_.state() == Handshake::State::proved ? Step::encrypt : Step::admitted;
}

namespace {

Proof outcome(Transfer transfer) {
  return transfer == Transfer::done ? Proof::done : transfer == Transfer::timed_out ? Proof::timed_out : Proof::closed;
}

}  // namespace

Proof prove(Descriptor& socket, Receiver& receiver, const Secret& key, Deadline deadline, TlsProxies* tls_proxies) {
  Handshake handshake = Handshake::initiate(key, {.purpose = Purpose::store, .encrypted = tls_proxies != nullptr});
  std::string_view prefix{reinterpret_cast<const char*>(&op_authenticate), 1};
  while (handshake.state() != Handshake::State::done) {
    if (handshake.state() == Handshake::State::refused) return Proof::refused;
    Transfer transfer = Transfer::done;
    if (handshake.state() == Handshake::State::proved) {
      socket = tls_proxies->encrypt(std::move(socket), handshake);
      if (!socket) throw Error{ErrorCode::system, "cannot encrypt the connection to the store: " + refusal(errno)};
      char ready{};
      transfer = receiver.recv_all({&ready, 1}, deadline);
      handshake.encrypted();
    } else if (const auto bytes = handshake.outgoing(); !bytes.empty()) {
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
  return Proof::done;
}

}  // namespace tutti::rendezvous
