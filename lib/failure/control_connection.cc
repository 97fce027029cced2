#include "lib/failure/control_connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <span>

#include "lib/base/net/socket.h"

namespace tutti::detail {
namespace {

bool is_about_long_calls(const ControlMessage& message) {
  using Kind = ControlMessage::Kind;
  return message.kind == Kind::report || message.kind == Kind::question || message.kind == Kind::answer;
}

}  // namespace

void ControlConnection::send(const ControlMessage& message) {
  const bool has_fallen_behind = message.report.overdue ? unsent_.size() > most_unsent / 2 : is_behind();
  if (ended() || (has_fallen_behind && is_about_long_calls(message))) return;
  unsent_ += encode(message);
  write();
  if (unsent_.size() > most_unsent) socket_.reset();
}

void ControlConnection::write() noexcept {
  while (!ended() && !unsent_.empty()) {
    const net::Moved moved = net::write_some(socket_, std::as_bytes(std::span{unsent_}));
    if (moved.failed()) unsent_.clear();  // the end becomes visible when the peer's earlier messages have been read
    if (moved.error != 0) return;
    unsent_.erase(0, moved.bytes);
  }
}

void ControlConnection::read(std::vector<ControlMessage>& messages) {
  std::array<char, 16 * 1024> buffer;
  while (!ended()) {
    const net::Moved moved = net::read_some(socket_, std::as_writable_bytes(std::span{buffer}));
    if (moved.failed()) return socket_.reset();
    if (moved.error != 0) return;
    heard_ = Clock::now();
    arrived_.append(buffer.data(), moved.bytes);
    digest(messages);
  }
}

void ControlConnection::digest(std::vector<ControlMessage>& messages) {
  std::size_t begin = 0;
  while (arrived_.size() - begin >= control_message_head) {
    std::size_t length = 0;
    for (std::size_t i = 0; i < control_message_head; ++i)
      length |= std::size_t{static_cast<unsigned char>(arrived_[begin + i])} << (8 * i);
    if (length > max_control_message) return socket_.reset();
    if (arrived_.size() - begin - control_message_head < length) break;
    auto message = decode_control_message(std::span(arrived_).subspan(begin + control_message_head, length));
    if (!message) return socket_.reset();
    messages.push_back(std::move(*message));
    begin += control_message_head + length;
  }
  arrived_.erase(0, begin);
}

void ControlConnection::cut() noexcept {
  if (!ended()) net::shut_down(socket_);
}

void ControlConnection::finish(Clock::time_point deadline) noexcept {
  for (write(); !ended() && has_unsent() && net::wait_until_ready(socket_, POLLOUT, deadline); write()) continue;
  if (!ended()) ::shutdown(socket_.get(), SHUT_WR);
}

}  // namespace tutti::detail
