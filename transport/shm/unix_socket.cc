#include "transport/shm/unix_socket.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "lib/base/net/socket.h"
#include "lib/base/system_calls.h"
#include "lib/base/system_error_text.h"
#include "tutti/error.h"

namespace tutti::transport {
namespace {

constexpr std::size_t most_descriptors = 8;            // room to receive, and close, more than we want
constexpr std::chrono::milliseconds longest_ring{10};  // until others have heard their bells
constexpr int most_rings = 64;                         // heard at a time

[[noreturn]] void refuse(const char* what) {
  throw Error(ErrorCode::system, fmt::format("cannot {} a Unix socket: {}", what, refusal(errno)));
}

}  // namespace

Attempt connect_unix(const std::string& name, Descriptor& socket) {
  const auto target = net::unix_address(name);
  if (!target) {
    errno = EINVAL;
    return Attempt::failed;
  }
  socket = net::make_stream(AF_UNIX);
  if (!socket) return Attempt::failed;
  const int error = net::begin_connect(socket, *target);
  if (error == net::queue_full || error == EINPROGRESS) return Attempt::later;
  errno = error;
  return error == 0 ? Attempt::done : Attempt::failed;
}

Attempt send_with_descriptor(const Descriptor& socket, std::span<const std::byte> bytes, const Descriptor& passed) {
  ::iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(::cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  ::msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ::cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  const int number = passed.get();
  std::memcpy(CMSG_DATA(header), &number, sizeof number);
  const ssize_t sent = ::sendmsg(socket.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent == static_cast<ssize_t>(bytes.size())) return Attempt::done;
  // ETOOMANYREFS: this user has too many descriptors on their way, so its ranks must first take some.
  return sent < 0 && (net::is_busy(errno) || errno == ETOOMANYREFS) ? Attempt::later : Attempt::failed;
}

Received receive_with_descriptor(const Descriptor& socket, std::span<std::byte> bytes) {
  ::iovec piece{bytes.data(), bytes.size()};
  alignas(::cmsghdr) std::array<char, CMSG_SPACE(most_descriptors * sizeof(int))> control{};
  ::msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = ::recvmsg(socket.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0) return {net::is_busy(errno) ? Attempt::later : Attempt::failed};

  Received received;
  std::size_t count = 0;
  for (::cmsghdr* header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t numbers = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < numbers; ++i, ++count) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(header) + i * sizeof number, sizeof number);
      received.descriptor = Descriptor(number);  // closes an earlier one
    }
  }
  received.no_room = (message.msg_flags & MSG_CTRUNC) != 0 && count == 0;
  const bool whole = got == static_cast<ssize_t>(bytes.size()) && (message.msg_flags & MSG_CTRUNC) == 0;
  if (whole && count == 1) received.attempt = Attempt::done;
  return received;
}

Descriptor make_bell(const std::string& name) {
  Descriptor socket{system_calls::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (!socket) refuse("make");
  const auto own = net::unix_address(name);
  if (!own || ::bind(socket.get(), own->get(), own->length) != 0) refuse("name");
  return socket;
}

void ring_bell(const Descriptor& from, const std::string& name) noexcept {
  const auto target = net::unix_address(name);
  const char bell = 0;
  if (!target) return;
  const auto ring = [&] {
    return ::sendto(from.get(), &bell, 1, MSG_DONTWAIT | MSG_NOSIGNAL, target->get(), target->length) >= 0;
  };
  if (ring() || !net::is_busy(errno)) return;  // whose socket is gone needs none
  // Either the target's queue is full, and holds plenty of bells, or what this socket sent to others fills its buffer.
  if (net::wait_until_ready(from, POLLOUT, std::chrono::steady_clock::now() + longest_ring)) ring();
}

void discard_bells(const Descriptor& bell) noexcept {
  char bytes = 0;
  // Any process of this host may ring without end; that must not hold this rank here. The rest is taken next time.
  for (int rings = 0; rings < most_rings && ::recv(bell.get(), &bytes, 1, MSG_DONTWAIT) >= 0;) ++rings;
}

void send_bell(const Descriptor& socket) noexcept {
  const char bell = 0;
  // A full socket buffer holds enough wake-ups already; a closed one is noticed elsewhere.
  [[maybe_unused]] const auto sent = ::send(socket.get(), &bell, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

bool has_ended(const Descriptor& socket) noexcept {
  char byte = 0;
  return ::recv(socket.get(), &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0;
}

bool take_bells(const Descriptor& socket) noexcept {
  std::array<char, 256> bells;
  for (;;) {
    const ssize_t got = ::recv(socket.get(), bells.data(), bells.size(), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && !net::is_busy(errno))) return false;
    if (got < static_cast<ssize_t>(bells.size())) return true;
  }
}

}  // namespace tutti::transport
