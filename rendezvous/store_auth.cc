#include "rendezvous/store_auth.h"

#include <poll.h>

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
  const int error = tutti::advance(handshake_, socket);
  if (error == EAGAIN) return handshake_.outgoing().empty() ? Step::wait_to_read : Step::wait_to_write;
  if (error != 0 || handshake_.state() == Handshake::State::refused) return Step::refused;
  return handshake_.state() == Handshake::State::done ? Step::admitted : Step::encrypt;
}

// Reads no byte beyond what it expects. What somebody adds to the server's answer before the encryption begins is not
// taken for a part of the encrypted stream.
Proof prove(Descriptor& socket, const Secret& key, Deadline deadline, TlsProxies* tls_proxies) {
  const std::string_view challenge{reinterpret_cast<const char*>(&op_authenticate), 1};
  if (const Transfer sent = send_all(socket, challenge, deadline); sent != Transfer::done)
    return sent == Transfer::timed_out ? Proof::timed_out : Proof::closed;
  Handshake handshake = Handshake::initiate(key, {.purpose = Purpose::store, .encrypted = tls_proxies != nullptr});
  for (;;) {
    const int error = tutti::advance(handshake, socket);
    if (error == EAGAIN) {
      if (!wait_until_ready(socket, handshake.outgoing().empty() ? POLLIN : POLLOUT, deadline)) return Proof::timed_out;
      continue;
    }
    if (error != 0) {
      errno = error == net::end_of_stream ? 0 : error;
      return Proof::closed;
    }
    if (handshake.state() != Handshake::State::proved)
      return handshake.state() == Handshake::State::done ? Proof::done : Proof::refused;
    socket = tls_proxies->encrypt(std::move(socket), handshake);
    if (!socket) throw Error{ErrorCode::system, "cannot encrypt the connection to the store: " + refusal(errno)};
  }
}

}  // namespace tutti::rendezvous
