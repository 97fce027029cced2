#include "transport/tcp/acknowledgement_check.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <utility>

namespace tutti::transport::tcp {
namespace {

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
                                              std::chrono::milliseconds pause) noexcept {
  const bool is_silent =
      std::ranges::any_of(sockets, [=](const net::Socket& socket) { return is_unanswered(socket, pause); });
  since_ = is_silent ? std::min(since_, now) : Clock::time_point::max();
  return since_ <= now ? now - since_ : Clock::duration{0};
}

}  // namespace tutti::transport::tcp
