// How the sending end of a link gets its connection: it uses the one on which the peer sends to this rank, if there is
// one, and else makes one, on which the peer will send, too.
//
// A connection that talks both ways is faster than two that talk one way each. On the latter the kernel acknowledges
// every second small message by a packet of its own, as nothing goes back that could carry it: a round trip of small
// messages takes half as long again. So of two ranks that both want to send, the higher one waits a moment for the
// lower one to connect. If that takes too long, there are two connections, and all is well, only slower.
//
// Who has left does not read any more: what he is sent then resets the connection, and what he said last may be lost
// with it. So what may come that late goes over a connection of its own. It exists only where there are others between
// the same two ranks already, so that none of those will ever want to share it.

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "lib/security/handshake_io.h"
#include "transport/tcp/connector.h"
#include "transport/tcp/in_link.h"
#include "transport/tcp/out_link.h"

namespace tutti::transport::tcp {
namespace {

using namespace std::chrono_literals;

constexpr auto longest_pause = 250ms;
constexpr auto expectation = 500us;

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

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
  if (state_ == State::connecting) continue_connecting();  // on loopback that was all
}

bool OutLink::adopt() noexcept {
  InLink* const reader = shares_ ? context_.unshared(peer(), channel()) : nullptr;
  if (reader == nullptr) return false;
  socket_ = reader->share(*this);
  if (!socket_) return false;  // a connection of its own will say why
  reader_ = reader;
  state_ = State::open;
  return true;
}

/// What the peer says on this connection is read by a link of its own.
void OutLink::opened() noexcept {
  if (shares_) {
    context_.reactor.unwatch(socket_.get());
    net::Socket twin = socket_.duplicate();
    if (!twin) return connect_failed(errno);
    context_.in_links.push_back(std::make_unique<InLink>(context_, peer(), channel(), std::move(twin), this));
    reader_ = context_.in_links.back().get();
  }
  state_ = State::open;
}

void OutLink::connect() noexcept {
  ++attempts_;
  if (!address_) address_ = net::parse_address(context_.address_of(peer()));
  if (!address_)
    return lose(Certainty::sure, {ErrorCode::peer_lost,
                                  fmt::format("Rank {} cannot reach {}: it published no address of the form "
                                              "10.0.0.1:4242 for TCP.",
                                              context_.rank, context_.name_of(peer())),
                                  peer()});
  int error = ENETUNREACH;
  if (!context_.cut) socket_ = connect_to(*address_, context_.congestion, error);
  if (socket_) net::keep_alive(socket_, context_.lost_after);
  if (error != 0 && error != EINPROGRESS) return connect_failed(error);
  state_ = State::connecting;
  watch_socket();
}

void OutLink::watch_socket() noexcept {
  context_.reactor.watch(socket_.get(), [this] {
    heard_ = true;
    make_busy();
  });
}

bool OutLink::continue_connecting() noexcept {
  const int error = net::connected(socket_);
  if (error == EINPROGRESS) {
    if (Clock::now() < give_up_at_) return false;
    connect_failed(ETIMEDOUT);
  } else if (error != 0) {
    connect_failed(error);
  } else {
    handshake_.emplace(Handshake::initiate(context_.key, {.from = context_.rank,
                                                          .to = peer(),
                                                          .channel = channel(),
                                                          .purpose = Purpose::link,
                                                          .encrypted = context_.tls_proxies != nullptr}));
    state_ = State::greeting;
    heard_ = true;
  }
  return true;
}

bool OutLink::continue_greeting() noexcept {
  if (!heard_ && handshake_->outgoing().empty()) {
    if (Clock::now() < give_up_at_) return false;
    connect_failed(ETIMEDOUT);
    return true;
  }
  heard_ = false;
  const int error = tutti::advance(*handshake_, socket_);
  if (error == EAGAIN) return false;
  if (error != 0) {
    connect_failed(error);
  } else if (handshake_->state() == Handshake::State::done && context_.tls_proxies) {
    context_.reactor.unwatch(socket_.get());
    socket_ = context_.tls_proxies->encrypt(std::move(socket_), *handshake_);
    if (!socket_) {
      connect_failed(errno);
      return true;
    }
    handshake_.reset();
    state_ = State::securing;
    watch_socket();
  } else if (handshake_->state() == Handshake::State::done) {
    handshake_.reset();
    opened();
  } else {
    lose(Certainty::sure, {ErrorCode::peer_lost,
                           fmt::format("Rank {} cannot reach {}: {}", context_.rank, context_.name_of(peer()),
                                       Connector::another_secret_text),
                           peer()});
  }
  return true;
}

bool OutLink::continue_securing() noexcept {
  int error = std::exchange(heard_, false) ? TlsProxies::is_ready(socket_.get()) : EAGAIN;
  if (error == EAGAIN && Clock::now() >= give_up_at_) error = ETIMEDOUT;
  if (error == EAGAIN) return false;
  if (error == 0) opened();
  if (error != 0) connect_failed(error);
  return true;
}

void OutLink::connect_failed(int error) noexcept {
  disconnect();
  const auto now = Clock::now();
  if (is_aside() && said_bye_) {
    state_ = State::dead;
    return;
  }
  if (is_aside()) give_up_at_ = now + context_.connect_timeout;  // there is nobody to tell
  if (is_aside() || (worth_retrying(error) && now < give_up_at_)) {
    state_ = State::refused;
    retry_at_ =
        std::min<Clock::time_point>({now + longest_pause, now + 1ms * (1 << std::min(attempts_, 10)), give_up_at_});
    return;
  }
  if (net::is_our_own(error))
    return lose(Certainty::sure, {ErrorCode::system,
                                  fmt::format("Rank {} cannot connect to {}: {}", context_.rank,
                                              context_.name_of(peer()), net::text_of(error)),
                                  context_.rank});
  const auto tried = now - (give_up_at_ - context_.connect_timeout);
  lose(Certainty::sure,
       {ErrorCode::peer_lost,
        fmt::format("Rank {} cannot reach {}: {}; gave up after {} attempts in {:.1f} s. Is that process alive, and "
                    "may this host connect to that port?",
                    context_.rank, context_.name_of(peer()), net::text_of(error), attempts_, seconds(tried)),
        peer()});
}

}  // namespace tutti::transport::tcp
