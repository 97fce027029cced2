#include "transport/tcp/link_errors.h"

#include <fmt/format.h>

#include <cerrno>

#include "transport/connector.h"

namespace tutti::transport::tcp {
namespace {

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

std::string probable_cause(int error) {
  return error == ETIMEDOUT
             ? "nothing comes back on the connection between these ranks, as if a firewall had forgotten it; "
               "both processes may be alive"
             : "that process has probably died";
}

Error no_address_of(const TcpContext& context, int peer) {
  return {ErrorCode::peer_lost,
          fmt::format("rank {} cannot reach {}: it published no address like 10.0.0.1:4242 for TCP", context.rank,
                      context.name_of(peer)),
          peer};
}

Error cannot_reach(const TcpContext& context, int peer, int error, int attempts, Clock::duration time) {
  if (net::is_our_own(error))
    return {ErrorCode::system,
            fmt::format("rank {} cannot connect to {}: {}", context.rank, context.name_of(peer), net::text_of(error)),
            context.rank};
  return {ErrorCode::peer_lost,
          fmt::format("rank {} cannot reach {}: {}; gave up after {} attempts in {:.1f} s; check that "
                      "the process is alive and that this host may connect to that port",
                      context.rank, context.name_of(peer), net::text_of(error), attempts, seconds(time)),
          peer};
}

Error cannot_trust(const TcpContext& context, int peer) {
  return {
      ErrorCode::peer_lost,
      fmt::format("rank {} cannot reach {}: {}", context.rank, context.name_of(peer), Connector::another_secret_text),
      peer};
}

Error has_closed(const TcpContext& context, int peer) {
  return {ErrorCode::peer_lost,
          fmt::format("rank {} cannot send to {}: that rank has closed its communicator", context.rank,
                      context.name_of(peer)),
          peer};
}

Error is_nonsense(const TcpContext& context, int peer) {
  return {ErrorCode::mismatch,
          fmt::format("rank {} got bytes back from {} that are no frame of tutti; both must run the same version",
                      context.rank, context.name_of(peer)),
          peer};
}

Error is_unacknowledged(const TcpContext& context, int peer, Clock::duration time) {
  return {
      ErrorCode::peer_lost,
      fmt::format("the connection between ranks {} and {} is broken: what rank {} sent to {} has not been "
                  "acknowledged for {} s; both processes may be alive, but a firewall on the way may have forgotten "
                  "the connection, or the network between them is down",
                  context.rank, peer, context.rank, context.name_of(peer),
                  std::chrono::duration_cast<std::chrono::seconds>(time).count()),
      peer};
}

Error is_lost(const TcpContext& context, int peer, std::uint64_t sent_bytes, int error) {
  return {ErrorCode::peer_lost,
          fmt::format("rank {} lost {} after sending it {} bytes on this link: {}; {}", context.rank,
                      context.name_of(peer), sent_bytes, net::text_of(error), probable_cause(error)),
          peer};
}

}  // namespace tutti::transport::tcp
