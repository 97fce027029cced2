#include "transport/shm/wire.h"

#include <fmt/core.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "lib/base/refusal.h"
#include "transport/shm/unix_socket.h"

namespace tutti::transport {

ShmWire::ShmWire(MappedRing ring, Descriptor socket, WireHome& home)
    : ring_(std::move(ring)), socket_(std::move(socket)), home_(home) {
  watch();
}

ShmWire::ShmWire(MappedRing ring, Introduction introduction, WireHome& home)
    : ring_(std::move(ring)), home_(home), introduction_(std::move(introduction)) {}

ShmWire::~ShmWire() {
  std::erase(home_.strangers, this);
  if (socket_ && !left_) home_.reactor.unwatch(socket_.get());
}

bool ShmWire::introduce() {
  Attempt attempt = connect_unix(introduction_->socket, socket_);
  if (attempt == Attempt::done) {
    const long user = user_of_peer(socket_);
    if (user != static_cast<long>(::geteuid()))
      return give_up(ErrorCode::peer_lost,
                     fmt::format("its socket belongs to user {}, not to user {}", user, ::geteuid()));
    attempt = send_with_descriptor(socket_, introduction_->hello, introduction_->memory);
  }
  if (attempt == Attempt::failed) {
    const bool ours = errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS;
    return give_up(ours ? ErrorCode::system : ErrorCode::peer_lost, refusal(errno));
  }
  if (attempt == Attempt::later) {
    socket_ = Descriptor();
    return false;
  }
  introduction_.reset();
  watch();
  return true;
}

bool ShmWire::give_up(ErrorCode code, const std::string& why) {
  const int peer = introduction_->peer;
  trouble_.emplace(code, fmt::format("cannot connect to rank {} through its Unix socket: {}", peer, why), peer);
  introduction_.reset();
  socket_ = Descriptor();
  home_.host.attention();
  return true;
}

void ShmWire::watch() {
  home_.reactor.watch(socket_.get(), [this] { hear(); });
}

void ShmWire::hear() {
  if (take_bells(socket_)) return;
  home_.reactor.unwatch(socket_.get());
  left_ = true;
  home_.host.attention();
}

void ShmWire::cut() noexcept {
  if (left_ || !socket_) return;
  home_.reactor.unwatch(socket_.get());
  ::shutdown(socket_.get(), SHUT_RDWR);
  left_ = true;
}

void ShmWire::wake_peer() noexcept {
  if (socket_) send_bell(socket_);
}

}  // namespace tutti::transport
