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
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "lib/base/keep_alive.h"
#include "lib/base/system_error_text.h"
#include "rendezvous/interfaces.h"
#include "rendezvous/process.h"
#include "rendezvous/store_errors.h"
#include "rendezvous/unreachable.h"
#include "tutti/error.h"

namespace tutti::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int seconds_of_silence = 30;  // before a client that sends nothing reaches accept()

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
    if (ready < 0 && errno != EINTR) return true;  // the next system call reports it
  }
}

/// A client may get a local port from the same range as the port that it connects to. If nobody listens there, the
/// socket may be connected to itself.
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
  keep_alive(socket.get(), silence_of_store);
  return socket;
}

}  // namespace

namespace {

/// An interface or a route that is being set up may take that long.
constexpr std::chrono::seconds time_for_interfaces{5};
/// For one of several addresses; another one may answer where this one is silent.
constexpr std::chrono::seconds time_for_one_address{3};

/// This host has no route there. (The peer may be listening.)
bool is_no_route(int error) {
  return error == ENETUNREACH || error == EHOSTUNREACH || error == EADDRNOTAVAIL || error == EAFNOSUPPORT;
}

/// One attempt at all addresses.
struct Attempt {
  Descriptor socket = {};
  std::string problem = {};  ///< the last one
  bool no_route = true;      ///< to any address
};

Attempt try_all(const Endpoint& endpoint, std::span<const SocketAddress> addresses, Deadline deadline,
                steady_clock::duration most) {
  Attempt attempt;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const auto left = (deadline - steady_clock::now()) / static_cast<int>(addresses.size() - i);
    attempt.socket =
        try_connect(addresses[i], steady_clock::now() + (addresses.size() == 1 ? left : std::min(left, most)));
    if (attempt.socket) return attempt;
    if (errno == EMFILE || errno == ENFILE)  // the limit of this host, which waiting does not change
      throw Error{ErrorCode::system,
                  fmt::format("cannot connect to the store at {}: {}", to_string(endpoint), refusal(errno))};
    attempt.no_route = attempt.no_route && is_no_route(errno);
    attempt.problem =
        fmt::format("connecting to {}: {} (errno {})", to_string(addresses[i].endpoint()), std::strerror(errno), errno);
  }
  return attempt;
}

}  // namespace

Descriptor connect_to(const Endpoint& endpoint, Deadline deadline) {
  const auto begin = steady_clock::now();
  // Ranks that started together must not retry together.
  std::minstd_rand random{static_cast<unsigned>(::getpid())};
  std::string problem;
  steady_clock::duration most = time_for_one_address;
  for (milliseconds pause{5};; pause = std::min(pause * 2, milliseconds{500}),
                               most = std::min<steady_clock::duration>(most * 2, std::chrono::hours{1})) {
    const Resolved resolved = resolve(endpoint, deadline);
    if (!resolved.problem.empty()) problem = resolved.problem;
    Attempt attempt = try_all(endpoint, resolved.addresses, deadline, most);
    if (attempt.socket) return std::move(attempt.socket);
    if (!attempt.problem.empty()) problem = attempt.problem;
    if (attempt.no_route) {
      const auto [lasting, at_once] = why_unreachable(resolved.addresses, interfaces());
      if (!lasting.empty() && (at_once || steady_clock::now() - begin >= time_for_interfaces))
        throw Error{ErrorCode::rendezvous,
                    fmt::format("cannot reach the store at {}: {}. ({})", to_string(endpoint), lasting, problem)};
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

namespace {

/// Empty, with the reason in errno, if this host does not permit it.
Descriptor try_listen(const SocketAddress& address, bool every_address) {
  Descriptor socket{::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (!socket) return {};
  set_flag(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  set_flag(socket.get(), IPPROTO_TCP, TCP_DEFER_ACCEPT, seconds_of_silence);
  // "::" means every address of both families; any other address means itself.
  if (address.family() == AF_INET6) set_flag(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, every_address ? 0 : 1);
  if (::bind(socket.get(), address.get(), address.length) == 0 && ::listen(socket.get(), SOMAXCONN) == 0) return socket;
  return {};
}

std::string why_not_listening(const Endpoint& endpoint, int error) {
  const std::string problem = fmt::format("{} (errno {})", std::strerror(error), error);
  if (error == EADDRINUSE) {
    const std::string holder = holder_of_port(endpoint.port);
    return fmt::format(
        "{}; port {} is held by {}. Choose another port; or, if a store already serves there, say store://{} instead "
        "of tcp://",
        problem, endpoint.port, holder.empty() ? "a process that cannot be seen from here" : holder,
        to_string(endpoint));
  }
  if (error == EADDRNOTAVAIL)
    return problem +
           "; that is no address of this host. Rank 0 must run on the host that the rendezvous names; or, if a store "
           "already serves there, say store://" +
           to_string(endpoint) + " instead of tcp://";
  return problem;
}

/// Listens on all addresses that allow it, on one port. `error`: why there are fewer; a port in use is always reported.
std::vector<Descriptor> try_listen(std::span<SocketAddress> addresses, const Endpoint& endpoint, int& error) {
  std::vector<Descriptor> sockets;
  error = 0;
  for (SocketAddress& address : addresses) {
    if (endpoint.port == 0 && !sockets.empty()) address.set_port(local_address(sockets.front()).endpoint().port);
    Descriptor socket = try_listen(address, endpoint.host == "::");
    if (socket) {
      sockets.push_back(std::move(socket));
    } else if (error != EADDRINUSE) {
      error = errno;
    }
  }
  return sockets;
}

}  // namespace

std::vector<Descriptor> listen_on(const Endpoint& endpoint, Deadline deadline) {
  Resolved resolved = resolve(endpoint, deadline);
  // The name of a pod may become known only some time after the pod has started.
  while (resolved.addresses.empty() && steady_clock::now() + milliseconds{200} < deadline) {
    std::this_thread::sleep_for(milliseconds{200});
    resolved = resolve(endpoint, deadline);
  }
  std::string problem = resolved.problem;
  // A port that the kernel chose for one address may be in use at the next one.
  constexpr int attempts = 16;
  for (int attempt = 0; attempt < (endpoint.port == 0 ? attempts : 1) && !resolved.addresses.empty(); ++attempt) {
    int error = 0;
    std::vector<Descriptor> sockets = try_listen(resolved.addresses, endpoint, error);
    // A name may have addresses of other hosts, or of a family that this host lacks.
    if (!sockets.empty() && error != EADDRINUSE) return sockets;
    problem = why_not_listening(endpoint, error);
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
