// How the sending end of a link gets its connection. It uses the connection on which the peer sends to this rank, if
// there is one. Otherwise it makes one, on which the peer will send, too.
//
// A connection that carries messages both ways is faster than two that carry them one way each. On the latter the
// kernel acknowledges every second small message with a packet of its own, since no data go back that could carry the
// acknowledgement; a round trip of small messages takes half as long again. So if two ranks both want to send, the
// higher one waits a moment for the lower one to connect. If that takes too long, there are two connections, which is
// only slower.
//
// A rank that has left does not read any more. Data sent to it then reset the connection, and its last messages may be
// lost with it. So frames that may arrive that late go over a connection of their own (a link aside). It is only made
// between ranks that have another connection already, so no link will want to share it.

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "transport/stream_socket.h"
#include "transport/tcp/in_link.h"
#include "transport/tcp/link_errors.h"
#include "transport/tcp/out_link.h"

namespace tutti::transport::tcp {
namespace {

using namespace std::chrono_literals;

constexpr auto longest_pause = 250ms;
constexpr auto expectation = 500us;

}  // namespace

void OutLink::begin() noexcept {
  const auto now = Clock::now();
  give_up_at_ = now + context_.connect_timeout;
  if (adopt()) return;
  if (shares_ && context_.rank > peer()) {
    state_ = State::expecting;
    retry_at_ = now + expectation;
    return;
  }
  connect();
}

bool OutLink::adopt() noexcept {
  InLink* const reader = shares_ ? context_.unshared(peer(), channel()) : nullptr;
  if (reader == nullptr) return false;
  socket_ = reader->share(*this);
  if (!socket_) return false;  // the attempt to make a connection will say why
  reader_ = reader;
  state_ = State::open;
  return true;
}

/// The connection is open. An InLink reads what the peer sends on it.
void OutLink::opened() noexcept {
  socket_ = connector_->take();
  connector_.reset();
  if (shares_) {
    net::Socket twin = socket_.duplicate();
    if (!twin) return connect_failed(errno);
    context_.in_links.push_back(std::make_unique<InLink>(context_, peer(), channel(), std::move(twin), this));
    reader_ = context_.in_links.back().get();
  } else {
    listen_later(socket_);
  }
  state_ = State::open;
}

void OutLink::connect() noexcept {
  ++attempts_;
  if (!address_) address_ = net::parse_address(context_.address_of(peer()));
  if (!address_) return lose(Certainty::sure, no_address_of(context_, peer()));
  if (context_.cut) return connect_failed(ENETUNREACH);
  const Hello hello{.from = context_.rank, .to = peer(), .channel = channel(), .purpose = Purpose::link};
  connector_.emplace(*address_, context_.key, hello, context_.tls_proxies,
                     context_.is_within_host(peer()) ? within_host(context_.congestion) : context_.congestion);
  net::keep_alive(connector_->socket(), context_.lost_after);
  state_ = State::connecting;
}

void OutLink::listen_later(const net::Socket& socket) noexcept {
  context_.reactor.watch(socket.get(), [this] {
    heard_ = true;
    make_busy();
  });
}

/// The connector may replace its socket, so the reactor must not watch it meanwhile.
bool OutLink::continue_connecting() noexcept {
  const bool waits = connector_->events() == POLLIN && !heard_;
  if (!waits) {
    heard_ = false;
    context_.reactor.unwatch(connector_->fd());
    const int error = connector_->advance();
    if (error == 0) {
      opened();
    } else if (error == Connector::another_secret) {
      lose(Certainty::sure, cannot_trust(context_, peer()));
    } else if (error != EAGAIN) {
      connect_failed(error);
    }
    if (error != EAGAIN) return true;
    if (connector_->events() == POLLIN) listen_later(connector_->socket());
  }
  if (Clock::now() < give_up_at_) return false;
  connect_failed(ETIMEDOUT);
  return true;
}

void OutLink::connect_failed(int error) noexcept {
  disconnect();
  const auto now = Clock::now();
  if (is_aside() && said_bye_) {
    state_ = State::dead;
    return;
  }
  if (is_aside()) give_up_at_ = now + context_.connect_timeout;  // a link aside fails without telling the sink
  if (is_aside() || (worth_retrying(error) && now < give_up_at_)) {
    state_ = State::refused;
    retry_at_ =
        std::min<Clock::time_point>({now + longest_pause, now + 1ms * (1 << std::min(attempts_, 10)), give_up_at_});
    return;
  }
  const auto tried = now - (give_up_at_ - context_.connect_timeout);
  lose(Certainty::sure, cannot_reach(context_, peer(), error, attempts_, tried));
}

}  // namespace tutti::transport::tcp
