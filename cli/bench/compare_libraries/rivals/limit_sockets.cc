// Loopback TCP at its best: two processes on two cores that never sleep.

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "cli/bench/compare_libraries/rivals/limit.h"
#include "cli/measure/median.h"

namespace tutti::cli::measure {
namespace {

struct Connection {
  int ends[2] = {-1, -1};
};

Connection connect_to_self() {
  Connection made;
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  made.ends[0] = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool good = ::bind(listener, plain, length) == 0 && ::listen(listener, 1) == 0 &&
                    ::getsockname(listener, plain, &length) == 0 && ::connect(made.ends[0], plain, length) == 0;
  if (good) made.ends[1] = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  ::close(listener);
  const int on = 1;
  for (const int end : made.ends) {
    ::setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ::fcntl(end, F_SETFL, O_NONBLOCK);
  }
  return made;
}

void close_both(const Connection& connection) {
  for (const int end : connection.ends) ::close(end);
}

bool would_block(ssize_t result) { return result < 0 && (errno == EAGAIN || errno == EWOULDBLOCK); }

void send_all(int end, const char* data, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t sent = ::send(end, data, bytes, MSG_NOSIGNAL);
    if (sent <= 0 && !would_block(sent)) ::_exit(1);
    if (sent > 0) data += sent, bytes -= static_cast<std::size_t>(sent);
  }
}

void receive_all(int end, char* data, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t received = ::recv(end, data, bytes, 0);
    if (received == 0 || (received < 0 && !would_block(received))) ::_exit(1);
    if (received > 0) data += received, bytes -= static_cast<std::size_t>(received);
  }
}

}  // namespace

double tcp_round_trip() {
  constexpr int batches = 80;
  constexpr int trips = 50;
  const Connection connection = connect_to_self();
  const std::vector<double> times = in_processes(2, [&](RankSync& sync) {
    const int end = connection.ends[sync.rank()];
    char word[4] = {};
    std::vector<double> seen;
    for (int batch = 0; batch < batches; ++batch) {
      const double begin = microseconds_now();
      for (int i = 0; i < trips; ++i) {
        if (sync.rank() == 0) send_all(end, word, sizeof word);
        receive_all(end, word, sizeof word);
        if (sync.rank() == 1) send_all(end, word, sizeof word);
      }
      seen.push_back((microseconds_now() - begin) / trips);
    }
    return median(seen);
  });
  close_both(connection);
  return times.front();
}

/// The median of the rates of its parts, so that interruptions affect only a few.
double tcp_stream(bool both_ways) {
  constexpr std::size_t total = std::size_t{256} << 20;
  constexpr std::size_t part = total / 32;
  constexpr std::size_t piece = std::size_t{256} << 10;
  const Connection connection = connect_to_self();
  const std::vector<double> rates = in_processes(2, [&](RankSync& sync) {
    const int end = connection.ends[sync.rank()];
    std::vector<char> out(piece, 1);
    std::vector<char> in(piece, 1);
    std::size_t to_send = both_ways || sync.rank() == 0 ? total : 0;
    std::size_t to_receive = both_ways || sync.rank() == 1 ? total : 0;
    std::vector<double> seen;
    sync.gather();
    double begin = microseconds_now();
    while (to_send > 0 || to_receive > 0) {
      const ssize_t sent = to_send > 0 ? ::send(end, out.data(), std::min(piece, to_send), MSG_NOSIGNAL) : 0;
      if (sent < 0 && !would_block(sent)) ::_exit(1);
      if (sent > 0) to_send -= static_cast<std::size_t>(sent);
      const ssize_t received = to_receive > 0 ? ::recv(end, in.data(), std::min(piece, to_receive), 0) : -1;
      if (received == 0) ::_exit(1);
      if (received <= 0) continue;
      const std::size_t parts_before = to_receive / part;
      to_receive -= static_cast<std::size_t>(received);
      if (to_receive / part == parts_before) continue;
      const double now = microseconds_now();
      seen.push_back(static_cast<double>(part) / (now - begin) * 1e-3);
      begin = now;
    }
    return median(seen);
  });
  close_both(connection);
  return both_ways ? rates[0] + rates[1] : rates[1];
}

}  // namespace tutti::cli::measure
