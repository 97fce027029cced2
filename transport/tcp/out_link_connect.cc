// How the sending end of a link gets its connections. It uses those on which the peer sends to this rank, if there are
// any. Otherwise it makes as many as TcpOptions::connections says, on which the peer will send, too. It sends nothing
// before all of them are open. If one cannot be opened, all are tried again.
//
// A connection that carries messages both ways is faster than two that carry them one way each. On the latter the
// kernel acknowledges every second small message with a packet of its own, since no data go back that could carry the
// acknowledgement; a round trip of small messages takes half as long again. So if two ranks both want to send, the
// higher one waits a moment for the lower one to connect. If that takes too long, each sends on its own connections,
// which is only slower.
//
// A rank that has left does not read any more. Data sent to it then reset the connection, and its last messages may be
// lost with it. So frames that may arrive that late go over a connection of their own (a link aside). It is only made
// between ranks that have another connection already, so no link will want to share it.

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "transport/connector.h"
#include "transport/stream_socket.h"
#include "transport/tcp/in_link.h"
#include "transport/tcp/link_errors.h"
#include "transport/tcp/out_link.h"

namespace tutti::transport::tcp {
namespace {

using namespace std::chrono_literals;

constexpr auto expectation = 500us;

}  // namespace

void OutLink::begin() noexcept {
  const auto now = Clock::now();
  give_up_at_ = now + context_.connect_timeout;
  if (adopt()) return;
  if (!is_aside() && context_.rank > peer()) {
    state_ = State::expecting;
    retry_at_ = now + expectation;
    return;
  }
  connect();
}

bool OutLink::adopt() noexcept {
  InLink* const reader = is_aside() ? nullptr : context_.unshared(peer(), channel());
  if (reader == nullptr) return false;
  sockets_ = reader->share(*this);
  if (sockets_.empty()) return false;  // the attempt to make a connection will say why
  queue_.deal_to(sockets_.size());
  reader_ = reader;
  state_ = State::open;
  return true;
}

/// All connections are open. An InLink reads what the peer sends on them.
void OutLink::opened() noexcept {
  sockets_ = connecting_->take();
  connecting_.reset();
  queue_.deal_to(sockets_.size());
  if (!is_aside()) {
    std::vector<net::Socket> twins = duplicates(sockets_);
    if (twins.empty()) return connect_failed(errno);
    context_.in_links.push_back(std::make_unique<InLink>(context_, peer(), channel(), std::move(twins), this));
    reader_ = context_.in_links.back().get();
  } else {
    context_.reactor.watch(sockets_.front().get(), [this] {
      heard_ = true;
      make_busy();
    });
  }
  state_ = State::open;
}

void OutLink::connect() noexcept {
  ++attempts_;
  const std::vector<net::Address> addresses = context_.addresses_of(peer());
  if (addresses.empty()) return lose(Certainty::sure, no_address_of(context_, peer()));
  if (context_.cut) return connect_failed(ENETUNREACH);
  const auto count = static_cast<std::uint8_t>(is_aside() ? 1 : context_.connections);
  const Hello hello{.from = context_.rank,
                    .to = peer(),
                    .channel = channel(),
                    .purpose = Purpose::link,
                    .stripe = {.attempt = ++context_.attempts, .count = count}};
  connecting_.emplace(context_, addresses, hello, [this] { make_busy(); });
  state_ = State::connecting;
}

bool OutLink::continue_connecting() noexcept {
  const int error = connecting_->advance();
  if (error == 0) {
    opened();
  } else if (error == Connector::another_secret) {
    lose(Certainty::sure, cannot_trust(context_, peer()));
  } else if (error != EAGAIN) {
    connect_failed(error);
  } else if (Clock::now() >= give_up_at_) {
    connect_failed(ETIMEDOUT);
  } else {
    return false;
  }
  return true;
}

void OutLink::connect_failed(int error) noexcept {
  disconnect();
  const auto now = Clock::now();
  if (is_aside() && (said_bye_ || (manner_ == Manner::courier && error == ECONNREFUSED))) {
    state_ = State::dead;
    return;
  }
  if (is_aside()) give_up_at_ = now + context_.connect_timeout;  // a link aside fails without telling the sink
  if (is_aside() || (worth_retrying(error) && now < give_up_at_)) {
    state_ = State::refused;
    retry_at_ = std::min<Clock::time_point>(now + pause_after(attempts_), give_up_at_);
    return;
  }
  const auto tried = now - (give_up_at_ - context_.connect_timeout);
  lose(Certainty::sure, cannot_reach(context_, peer(), error, attempts_, tried));
}

}  // namespace tutti::transport::tcp
