#include "transport/tcp/acknowledgement_check.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <utility>

namespace tutti::transport::tcp {
namespace {

/// Between two looks of a rank that waits all the time, on a host that is busy.
constexpr int most_pauses = 4;

/// Whether something was sent at least twice without any acknowledgement for `time`.
bool is_unanswered(net::SocketView socket, std::chrono::milliseconds time) noexcept {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(socket.get(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return false;
  int unacknowledged = 0;
  if (::ioctl(socket.get(), SIOCOUTQ, &unacknowledged) != 0) return false;
  // If this host refuses to send, the kernel counts nothing as sent: it probes instead of retransmitting.
  return unacknowledged > 0 && (info.tcpi_retransmits > 0 || info.tcpi_probes > 0) &&
         std::cmp_greater_equal(info.tcpi_last_ack_recv, time.count());
}

}  // namespace

Clock::duration AcknowledgementCheck::silence(std::span<const net::Socket> sockets, Clock::time_point now,
                                              std::chrono::milliseconds pause, const TlsProxies* tls_proxies) noexcept {
  std::uint32_t waiting = 0;
  for (std::size_t i = 0; i < sockets.size(); ++i) {
    const net::Socket behind = tls_proxies ? tls_proxies->connection_behind(sockets[i]) : net::Socket{};
    if (is_unanswered(tls_proxies ? behind : sockets[i], pause)) waiting |= std::uint32_t{1} << i;
  }
  return silence(waiting, now, pause);
}

/// A rank that computes does not look. What waits before and after that may be two things, both of them answered soon.
Clock::duration AcknowledgementCheck::silence(std::uint32_t waiting, Clock::time_point now,
                                              std::chrono::milliseconds pause) noexcept {
  if (now - std::exchange(last_, now) > most_pauses * pause) reset();
  Clock::duration longest{0};
  for (std::size_t i = 0; waiting >> i != 0; ++i) {
    if ((waiting >> i & 1) == 0) continue;
    if ((waiting_ >> i & 1) == 0) since_[i] = now;
    longest = std::max(longest, now - since_[i]);
  }
  waiting_ = waiting;
  return longest;
}

}  // namespace tutti::transport::tcp
