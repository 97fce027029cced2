#include "lib/failure/control_connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace tutti::detail {

void Line::send(const Letter& letter) noexcept {
  if (ended()) return;
  unsent_ += encode(letter);
  write();
  if (unsent_.size() > most_unsent) socket_.reset();
}

void Line::write() noexcept {
  while (!ended() && !unsent_.empty()) {
    const ssize_t sent = ::send(socket_.get(), unsent_.data(), unsent_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) {
      unsent_.erase(0, static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return;
    } else if (errno != EINTR) {
      unsent_.clear();  // the end shows when what the peer said before it has been read
    }
  }
}

void Line::read(std::vector<Letter>& letters) noexcept {
  std::array<char, 16 * 1024> buffer;
  while (!ended()) {
    const ssize_t got = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got <= 0) return socket_.reset();
    heard_ = Clock::now();
    arrived_.append(buffer.data(), static_cast<std::size_t>(got));
    digest(letters);
  }
}

void Line::digest(std::vector<Letter>& letters) noexcept {
  std::size_t begin = 0;
  while (arrived_.size() - begin >= letter_head) {
    std::size_t length = 0;
    for (std::size_t i = 0; i < letter_head; ++i)
      length |= std::size_t{static_cast<unsigned char>(arrived_[begin + i])} << (8 * i);
    if (length > max_letter) return socket_.reset();
    if (arrived_.size() - begin - letter_head < length) break;
    auto letter = decode_letter(std::span(arrived_).subspan(begin + letter_head, length));
    if (!letter) return socket_.reset();
    letters.push_back(std::move(*letter));
    begin += letter_head + length;
  }
  arrived_.erase(0, begin);
}

void Line::cut() noexcept {
  if (!ended()) ::shutdown(socket_.get(), SHUT_RDWR);
}

void Line::flush(Clock::time_point deadline) noexcept {
  for (write(); !ended() && !unsent_.empty(); write()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return;
    pollfd query{.fd = socket_.get(), .events = POLLOUT, .revents = 0};
    ::poll(&query, 1, static_cast<int>(std::min<long>(left, 100)));
  }
}

}  // namespace tutti::detail
