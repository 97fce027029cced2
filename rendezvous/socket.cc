#include "rendezvous/socket.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <random>
#include <string>
#include <thread>

#include "lib/base/refusal.h"
#include "rendezvous/complaints.h"
#include "rendezvous/process.h"
#include "tutti/error.h"

namespace tutti::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int seconds_of_silence = 30;  // before a client that says nothing reaches accept()

void set_flag(int socket, int level, int option, int value) {
  ::setsockopt(socket, level, option, &value, sizeof value);
}

/// False at the deadline.
bool wait_until_ready(int socket, short events, Deadline deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now()).count();
    if (left <= 0) return false;
    pollfd entry{socket, events, 0};
    const int ready = ::poll(&entry, 1, static_cast<int>(std::min<decltype(left)>(left, INT_MAX)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return true;  // the call that follows reports it
  }
}

/// A socket that connects to a port of this host in the range from which the kernel also takes the ports of clients may
/// be connected to itself when nobody listens.
bool is_connected_to_itself(int socket) {
  SocketAddress ours;
  SocketAddress theirs;
  ours.length = theirs.length = sizeof(sockaddr_storage);
  return ::getsockname(socket, ours.get(), &ours.length) == 0 &&
         ::getpeername(socket, theirs.get(), &theirs.length) == 0 && ours.endpoint() == theirs.endpoint();
}

/// A connected socket, or none and the reason in `errno`.
Descriptor try_connect(const SocketAddress& address, Deadline deadline) {
  Descriptor socket{::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (!socket) return {};
  if (::connect(socket.get(), address.get(), address.length) != 0) {
    if (errno != EINPROGRESS) return {};
    if (!wait_until_ready(socket.get(), POLLOUT, deadline)) {
      errno = ETIMEDOUT;
      return {};
    }
    int reason = 0;
    socklen_t length = sizeof reason;
    ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &reason, &length);
    if (reason != 0) {
      errno = reason;
      return {};
    }
  }
  if (is_connected_to_itself(socket.get())) {
    errno = ECONNREFUSED;
    return {};
  }
  set_flag(socket.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  return socket;
}

}  // namespace

Descriptor connect_to(const Endpoint& endpoint, Deadline deadline) {
  const auto begin = steady_clock::now();
  // Ranks that start together must not come again together.
  std::minstd_rand random{static_cast<unsigned>(::getpid())};
  std::string problem;
  for (milliseconds pause{5};; pause = std::min(pause * 2, milliseconds{500})) {
    const Resolved resolved = resolve(endpoint, deadline);
    if (!resolved.problem.empty()) problem = resolved.problem;
    for (std::size_t i = 0; i < resolved.addresses.size(); ++i) {
      const auto share = (deadline - steady_clock::now()) / static_cast<int>(resolved.addresses.size() - i);
      Descriptor socket = try_connect(resolved.addresses[i], steady_clock::now() + share);
      if (socket) return socket;
      if (errno == EMFILE || errno == ENFILE)  // this host's own trouble, which waiting does not end
        throw Error{ErrorCode::system,
                    fmt::format("cannot connect to the store at {}: {}", to_string(endpoint), refusal(errno))};
      problem = fmt::format("connecting to {}: {} (errno {})", to_string(resolved.addresses[i].endpoint()),
                            std::strerror(errno), errno);
    }
    const auto next = steady_clock::now() + pause / 2 + milliseconds{random() % static_cast<unsigned>(pause.count())};
    if (next >= deadline) break;
    std::this_thread::sleep_until(next);
  }
  throw Error{
      ErrorCode::rendezvous,
      fmt::format("no store at {}: {}; tried for {}. Check that rank 0 (or `tutti store`) runs there, that host and "
                  "port are right, and that no firewall is in between.",
                  to_string(endpoint), problem,
                  in_seconds(std::chrono::duration_cast<milliseconds>(steady_clock::now() - begin)))};
}

bool nobody_listens(const Endpoint& endpoint, milliseconds limit) {
  const auto deadline = steady_clock::now() + limit;
  const Resolved resolved = resolve(endpoint, deadline);
  return !resolved.addresses.empty() &&
         std::all_of(resolved.addresses.begin(), resolved.addresses.end(), [&](const SocketAddress& address) {
           return !try_connect(address, deadline) && errno == ECONNREFUSED;
         });
}

Descriptor listen_on(const Endpoint& endpoint, Deadline deadline) {
  Resolved resolved = resolve(endpoint, deadline);
  // The name of a pod may become known only some time after the pod has started.
  while (resolved.addresses.empty() && steady_clock::now() + milliseconds{200} < deadline) {
    std::this_thread::sleep_for(milliseconds{200});
    resolved = resolve(endpoint, deadline);
  }
  std::string problem = resolved.problem;
  for (const SocketAddress& address : resolved.addresses) {
    Descriptor socket{::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    if (socket) {
      set_flag(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
      set_flag(socket.get(), IPPROTO_TCP, TCP_DEFER_ACCEPT, seconds_of_silence);
      // "::" means every address, of both kinds; anything else means itself.
      if (address.family() == AF_INET6)
        set_flag(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, endpoint.host == "::" ? 0 : 1);
      if (::bind(socket.get(), address.get(), address.length) == 0 && ::listen(socket.get(), SOMAXCONN) == 0)
        return socket;
    }
    problem = fmt::format("{} (errno {})", std::strerror(errno), errno);
    if (errno == EADDRINUSE) {
      const std::string holder = holder_of_port(endpoint.port);
      problem += fmt::format(
          "; port {} is held by {}. Choose another port; or, if a store already serves there, say "
          "store://{} instead of tcp://",
          endpoint.port, holder.empty() ? "a process that cannot be seen from here" : holder, to_string(endpoint));
    }
    if (errno == EADDRNOTAVAIL)
      problem +=
          "; that is no address of this host. Rank 0 must run on the host that the rendezvous names; or, if a "
          "store already serves there, say store://" +
          to_string(endpoint) + " instead of tcp://";
  }
  throw Error{ErrorCode::rendezvous, fmt::format("cannot listen on {}: {}.", to_string(endpoint), problem)};
}

SocketAddress local_address(const Descriptor& socket) {
  SocketAddress address;
  address.length = sizeof(sockaddr_storage);
  ::getsockname(socket.get(), address.get(), &address.length);
  return address;
}

Transfer send_all(const Descriptor& socket, std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!wait_until_ready(socket.get(), POLLOUT, deadline)) return Transfer::timed_out;
    } else if (errno != EINTR) {
      return Transfer::closed;
    }
  }
  return Transfer::done;
}

Transfer Receiver::recv_all(std::span<char> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    if (begin_ == end_)
      if (const Transfer transfer = refill(deadline); transfer != Transfer::done) return transfer;
    const std::size_t now = std::min(bytes.size(), end_ - begin_);
    std::memcpy(bytes.data(), buffer_.data() + begin_, now);
    begin_ += now;
    bytes = bytes.subspan(now);
  }
  return Transfer::done;
}

Transfer Receiver::refill(Deadline deadline) {
  for (;;) {
    const ssize_t got = ::recv(socket_.get(), buffer_.data(), buffer_.size(), 0);
    if (got > 0) {
      begin_ = 0;
      end_ = static_cast<std::size_t>(got);
      return Transfer::done;
    }
    if (got == 0) {
      errno = 0;
      return Transfer::closed;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!wait_until_ready(socket_.get(), POLLIN, deadline)) return Transfer::timed_out;
    } else if (errno != EINTR) {
      return Transfer::closed;
    }
  }
}

}  // namespace tutti::rendezvous
