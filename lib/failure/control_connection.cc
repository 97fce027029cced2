#include "lib/failure/control_connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace tutti::detail {

void ControlConnection::send(const ControlMessage& message) {
  if (ended()) return;
  unsent_ += encode(message);
  write();
  if (unsent_.size() > most_unsent) socket_.reset();
}

void ControlConnection::write() noexcept {
  while (!ended() && !unsent_.empty()) {
    const ssize_t sent = ::send(socket_.get(), unsent_.data(), unsent_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) {
      unsent_.erase(0, static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return;
    } else if (errno != EINTR) {
      unsent_.clear();  // the end becomes visible when the peer's earlier messages have been read
    }
  }
}

void ControlConnection::read(std::vector<ControlMessage>& messages) {
  std::array<char, 16 * 1024> buffer;
  while (!ended()) {
    const ssize_t got = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got <= 0) return socket_.reset();
    heard_ = Clock::now();
    arrived_.append(buffer.data(), static_cast<std::size_t>(got));
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
  if (!ended()) ::shutdown(socket_.get(), SHUT_RDWR);
}

void ControlConnection::finish(Clock::time_point deadline) noexcept {
  for (write(); !ended() && !unsent_.empty(); write()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) break;
    pollfd query{.fd = socket_.get(), .events = POLLOUT, .revents = 0};
    ::poll(&query, 1, static_cast<int>(std::min<long>(left, 100)));
  }
  if (!ended()) ::shutdown(socket_.get(), SHUT_WR);
}

}  // namespace tutti::detail
