#include "transport/tcp/dial.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

#include "transport/tcp/greeting.h"
#include "tutti/error.h"

namespace tutti::transport::tcp {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds longest_pause{250};

/// False: `deadline` came first.
bool wait_for(const Socket& socket, short events, Clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (left <= 0ms) return false;
    pollfd query{.fd = socket.get(), .events = events, .revents = 0};
    const int ready = ::poll(&query, 1, static_cast<int>(std::min<std::chrono::milliseconds>(left, 1h).count()));
    if (ready > 0) return true;
  }
}

/// One attempt. 0: the handshake is over; else why not, ETIMEDOUT for `deadline`.
int attempt(const Address& address, Handshake& handshake, Socket& socket, Clock::time_point deadline,
            Tunnels* tunnels) {
  int error = 0;
  socket = connect_to(address, "", error);
  if (error != 0 && error != EINPROGRESS) return error;
  while ((error = connected(socket)) == EINPROGRESS)
    if (!wait_for(socket, POLLOUT, deadline)) return ETIMEDOUT;
  if (error != 0) return error;
  while ((error = advance(handshake, socket)) == EAGAIN)
    if (!wait_for(socket, handshake.outgoing().empty() ? POLLIN : POLLOUT, deadline)) return ETIMEDOUT;
  if (error != 0 || handshake.state() != Handshake::State::done || tunnels == nullptr) return error;
  socket = tunnels->encrypt(std::move(socket), handshake);
  if (!socket) return errno;
  while ((error = Tunnels::is_ready(socket.get())) == EAGAIN)
    if (!wait_for(socket, POLLIN, deadline)) return ETIMEDOUT;
  return error;
}

}  // namespace

Socket connect_authenticated(const std::string& address, const Secret& key, Hello hello, Clock::time_point deadline,
                             const std::shared_ptr<Tunnels>& tunnels) {
  hello.encrypted = tunnels != nullptr;
  const auto fail = [&](ErrorCode code, const std::string& why) {
    throw Error(code, fmt::format("Rank {} cannot reach rank {} (tcp, {}): {}.", hello.from, hello.to, address, why),
                code == ErrorCode::system ? hello.from : hello.to);
  };
  const auto where = parse_address(address);
  if (!where) fail(ErrorCode::peer_lost, "that is no address of the form 10.0.0.1:4242");
  for (int attempts = 1;; ++attempts) {
    Socket socket;
    Handshake handshake = Handshake::initiate(key, hello);
    const int error = attempt(*where, handshake, socket, deadline, tunnels.get());
    if (error == 0 && handshake.state() == Handshake::State::done) return socket;
    if (error == 0) fail(ErrorCode::peer_lost, who_has_another_secret);
    if (is_our_own(error)) fail(ErrorCode::system, text_of(error));
    const auto next = Clock::now() + std::min(longest_pause, 1ms * (1 << std::min(attempts, 10)));
    if (!worth_retrying(error) || next >= deadline)
      fail(ErrorCode::peer_lost, fmt::format("{}; gave up after {} attempts", text_of(error), attempts));
    std::this_thread::sleep_until(next);
  }
}

}  // namespace tutti::transport::tcp
