#include "rendezvous/store_socket.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "lib/base/clocks.h"
#include "lib/base/system_error_text.h"
#include "lib/base/wait_hook.h"
#include "rendezvous/interfaces.h"
#include "rendezvous/process.h"
#include "rendezvous/store_errors.h"
#include "rendezvous/unreachable.h"
#include "tutti/error.h"

namespace tutti::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::chrono::seconds silence_of_client{30};  // before a client that says nothing reaches accept()

/// A connected socket, or none and the reason in `errno`.
net::Socket try_connect(const net::Address& address, Deadline deadline) {
  net::Socket socket = net::make_stream(address.family());
  if (!socket) return {};
  int error = net::begin_connect(socket, address);
  if (error == EINPROGRESS && !wait_until_ready(socket, POLLOUT, deadline)) error = ETIMEDOUT;
  if (error == 0 || error == EINPROGRESS) error = net::connected(socket);
  if (error != 0) {
    errno = error;
    return {};
  }
  net::send_without_delay(socket);
  net::keep_alive(socket, silence_of_store);
  return socket;
}

/// An interface or a route that is just being set up may take that long.
constexpr std::chrono::seconds time_for_interfaces{5};
/// For one of several addresses; another one may answer where this one is silent.
constexpr std::chrono::seconds time_for_one_address{3};

/// This host has no route there. (The peer may be listening.)
bool is_no_route(int error) {
  return error == ENETUNREACH || error == EHOSTUNREACH || error == EADDRNOTAVAIL || error == EAFNOSUPPORT;
}

/// One attempt at all addresses.
struct Attempt {
  net::Socket socket = {};
  std::string problem = {};  ///< the last one
  bool no_route = true;      ///< to any address
};

Attempt try_all(const Endpoint& endpoint, std::span<const net::Address> addresses, Deadline deadline,
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
    attempt.problem = fmt::format("connecting to {}: {} (errno {})", addresses[i].text(), std::strerror(errno), errno);
  }
  return attempt;
}

}  // namespace

net::Socket connect_to(const Endpoint& endpoint, Deadline deadline) {
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
    end_if_program_interrupts();
  }
  throw NoStoreThere{
      ErrorCode::rendezvous,
      fmt::format("no store at {}: {}; tried for {}. Check that rank 0 (or `tutti store`) runs there, that host and "
                  "port are right, and that no firewall is in between.",
                  to_string(endpoint), problem,
                  in_seconds(std::chrono::duration_cast<milliseconds>(steady_clock::now() - begin)))};
}

bool nobody_listens(const Endpoint& endpoint, milliseconds limit) {
  const auto deadline = deadline_after(limit);
  const Resolved resolved = resolve(endpoint, deadline);
  return !resolved.addresses.empty() &&
         std::all_of(resolved.addresses.begin(), resolved.addresses.end(), [&](const net::Address& address) {
           return !try_connect(address, deadline) && errno == ECONNREFUSED;
         });
}

namespace {

/// Empty, and the reason in errno, where this host does not let us listen there.
net::Socket try_listen(const net::Address& address, bool every_address) {
  net::Socket socket = net::make_stream(address.family());
  if (!socket) return {};
  // "::" means every address, of both kinds; anything else means itself.
  if (address.family() == AF_INET6) net::set_option(socket, IPPROTO_IPV6, IPV6_V6ONLY, every_address ? 0 : 1);
  if (net::listen_on(socket, address, SOMAXCONN, silence_of_client) == 0) return socket;
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

/// All that can be had of one port; `error`: why there is less, of a port in use in any case.
std::vector<net::Socket> try_listen(std::span<net::Address> addresses, const Endpoint& endpoint, int& error) {
  std::vector<net::Socket> sockets;
  error = 0;
  for (net::Address& address : addresses) {
    if (endpoint.port == 0 && !sockets.empty()) address.set_port(net::local_address(sockets.front()).port());
    net::Socket socket = try_listen(address, endpoint.host == "::");
    if (socket) {
      sockets.push_back(std::move(socket));
    } else if (error != EADDRINUSE) {
      error = errno;
    }
  }
  return sockets;
}

}  // namespace

Resolved await_addresses(const Endpoint& endpoint, Deadline deadline) {
  Resolved resolved = resolve(endpoint, deadline);
  while (resolved.addresses.empty() && steady_clock::now() + milliseconds{200} < deadline) {
    std::this_thread::sleep_for(milliseconds{200});
    end_if_program_interrupts();
    resolved = resolve(endpoint, deadline);
  }
  return resolved;
}

std::vector<net::Socket> listen_on(const Endpoint& endpoint, Resolved addresses) {
  std::string problem = addresses.problem;
  // A port that the kernel chose for one address may be in use at the next one.
  constexpr int attempts = 16;
  for (int attempt = 0; attempt < (endpoint.port == 0 ? attempts : 1) && !addresses.addresses.empty(); ++attempt) {
    int error = 0;
    std::vector<net::Socket> sockets = try_listen(addresses.addresses, endpoint, error);
    // A name may have addresses of other hosts, or of a family that this one lacks.
    if (!sockets.empty() && error != EADDRINUSE) return sockets;
    problem = why_not_listening(endpoint, error);
  }
  throw Error{ErrorCode::rendezvous, fmt::format("cannot listen on {}: {}.", to_string(endpoint), problem)};
}

bool wait_until_ready(const net::Socket& socket, short events, Deadline deadline) {
  while (!net::wait_until_ready(socket, events, next_question(deadline))) {
    if (steady_clock::now() >= deadline) return false;
    end_if_program_interrupts();
  }
  return true;
}

Transfer send_all(const net::Socket& socket, std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const net::Moved moved = net::write_some(socket, std::as_bytes(std::span{bytes}));
    if (moved.failed()) {
      errno = moved.error;
      return Transfer::closed;
    }
    if (moved.error == EAGAIN && !wait_until_ready(socket, POLLOUT, deadline)) return Transfer::timed_out;
    bytes.remove_prefix(moved.bytes);
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
    const net::Moved moved = net::read_some(socket_, std::as_writable_bytes(std::span{buffer_}));
    if (moved.failed()) {
      errno = moved.error == net::end_of_stream ? 0 : moved.error;
      return Transfer::closed;
    }
    if (moved.bytes > 0) {
      begin_ = 0;
      end_ = moved.bytes;
      return Transfer::done;
    }
    if (!wait_until_ready(socket_, POLLIN, deadline)) return Transfer::timed_out;
  }
}

}  // namespace tutti::rendezvous
