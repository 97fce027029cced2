#include "transport/tcp/door.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace tutti::transport::tcp {
namespace {

using namespace std::chrono_literals;

constexpr auto pause_without_descriptors = 100ms;

}  // namespace

Door::Door(Reactor& reactor, const Address& address, const JobToken& token, Clock::duration patience, Welcome welcome)
    : reactor_(reactor),
      token_(token),
      patience_(patience),
      least_patience_(patience / 5),
      welcome_(std::move(welcome)),
      listener_(listen_on(address)),
      address_(local_address(listener_)) {
  open();
}

Door::~Door() {
  while (!strangers_.empty()) show_out(strangers_.begin());
  pause({});
}

void Door::open() noexcept {
  open_ = true;
  reactor_.watch(listener_.get(), [this] { knocked_ = true; });
}

void Door::pause(Clock::time_point until) noexcept {
  if (open_) reactor_.unwatch(listener_.get());
  open_ = false;
  closed_until_ = until;
}

bool Door::progress(bool look) noexcept {
  if (!look && !knocked_ && !spoken_ && open_ && strangers_.empty()) return false;
  const auto now = Clock::now();
  bool moved = false;
  if (!open_ && now >= closed_until_) {
    open();
    look = true;
  }
  if (std::exchange(spoken_, false)) {
    moved = true;
    for (Place next = strangers_.begin(); next != strangers_.end();) {
      const Place stranger = next++;
      if (std::exchange(stranger->speaks, false)) hear(stranger);
    }
  }
  while (!strangers_.empty() && now - strangers_.front().since >= patience_) show_out(strangers_.begin());
  if (open_ && (look || knocked_)) {
    moved |= knocked_;
    accept_all(now);
  }
  return moved;
}

void Door::arm() noexcept {
  if (!open_) reactor_.wake_by(closed_until_);
  if (!strangers_.empty()) reactor_.wake_by(strangers_.front().since + patience_);
}

void Door::accept_all(Clock::time_point now) noexcept {
  for (;;) {
    if (strangers_.size() == most_strangers) {
      if (now - strangers_.front().since < least_patience_) return pause(strangers_.front().since + least_patience_);
      show_out(strangers_.begin());
    }
    Socket socket = accept_from(listener_);
    if (!socket) break;
    strangers_.push_back({.socket = std::move(socket), .since = now, .bytes = {}});
    const Place stranger = std::prev(strangers_.end());
    reactor_.watch(stranger->socket.get(), [this, stranger] { spoken_ = stranger->speaks = true; });
    hear(stranger);  // a peer has usually spoken by now
  }
  knocked_ = false;
  if (errno != EAGAIN && errno != EWOULDBLOCK) pause(now + pause_without_descriptors);
}

void Door::hear(Place stranger) noexcept {
  stranger->speaks = false;
  while (stranger->have < hello_size) {
    iovec piece{stranger->bytes.data() + stranger->have, hello_size - stranger->have};
    const Moved moved = read_some(stranger->socket, {&piece, 1});
    if (moved.error == EAGAIN) return;
    if (moved.failed()) return show_out(stranger);
    stranger->have += moved.bytes;
  }
  const auto hello = decode_hello(stranger->bytes, token_);
  if (!hello) return show_out(stranger);
  reactor_.unwatch(stranger->socket.get());
  Socket socket = std::move(stranger->socket);
  strangers_.erase(stranger);
  closed_until_ = {};  // its place is free
  welcome_(*hello, std::move(socket));
}

void Door::show_out(Place stranger) noexcept {
  reactor_.unwatch(stranger->socket.get());
  strangers_.erase(stranger);
  closed_until_ = {};
}

}  // namespace tutti::transport::tcp
