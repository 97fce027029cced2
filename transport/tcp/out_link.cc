// The sending end of a link.
//
//   idle --send--> (expecting -->) connecting --> open --bye from the peer--> left
//                      |            |     ^         |
//                      |          refused-+       dead  (also from the others: when time is up, when the peer cannot
//                      +--the peer has connected--> open  prove itself, or when a link aside is to say bye)
//
// out_link_connect.cc says how it gets a connection. A message that finds an open connection and an empty queue is sent
// by send() with one call, header and payload together. The rest that the socket does not take waits in the queue, from
// which progress() sends as many messages as fit. Short messages that answer what one read has brought are sent
// together.

#include "transport/tcp/out_link.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>

#include "transport/tcp/in_link.h"
#include "transport/tcp/link_errors.h"

namespace tutti::transport::tcp {
namespace {

using namespace std::chrono_literals;

/// One read may bring a hundred requests, whose answers share a write. Longer messages do not wait for others.
constexpr std::size_t longest_reply = 2048;
constexpr auto longest_pause = 250ms;

/// Until the peer has written or hung up, a socket can be written for which there is something, or time is up. True:
/// the first of these. Without a socket it is a plain pause.
bool hear(std::span<const net::Socket> sockets, const FrameQueue& queue, int milliseconds) noexcept {
  std::array<pollfd, Stripe::most> queries{};
  for (std::size_t i = 0; i < sockets.size(); ++i)
    queries[i] = {sockets[i].get(), static_cast<short>(queue.has_for(i) ? POLLOUT | POLLIN : POLLIN), 0};
  if (::poll(queries.data(), sockets.size(), milliseconds) <= 0) return false;
  return std::ranges::any_of(queries, [](const pollfd& query) { return (query.revents & POLLIN) != 0; });
}

}  // namespace

OutLink::OutLink(TcpContext& shared, int peer, Channel channel, Manner manner)
    : Link(peer, channel), context_(shared), manner_(manner), quiet_(is_aside()) {}

OutLink::~OutLink() {
  disconnect();
  std::erase(context_.busy, this);
  std::erase(context_.replies, this);
  std::erase_if(context_.losses, [this](const TcpContext::Loss& loss) { return loss.link == this; });
}

bool OutLink::send(const Frame& frame, std::span<const std::byte> payload, Token token) noexcept {
  if (state_ == State::dead) return false;
  if (state_ == State::left) {
    refuse();
    return false;
  }
  if (state_ == State::idle) begin();
  FrameQueue::Message message{encode(frame), payload, token};
  if (context_.digesting && state_ == State::open && payload.size() <= longest_reply) {
    if (!replies_) context_.replies.push_back(this);
    replies_ = true;
  } else if (state_ == State::open && queue_.empty()) {
    return write_first(message);
  }
  queue_.add(message);
  make_busy();
  return false;
}

void OutLink::write_replies() noexcept {
  replies_ = false;
  if (state_ == State::open && doubt_ == 0) write();
}

/// Sends as much of the only message as the sockets take, and leaves the rest in the queue. True: all of it has gone.
bool OutLink::write_first(FrameQueue::Message& message) noexcept {
  const net::Moved moved = queue_.write_first(sockets_, message);
  if (moved.failed()) {
    write_failed(moved.error);
    if (state_ == State::left) refuse();
    if (!ended()) queue_.add(message);
    return false;
  }
  sent_bytes_ += moved.bytes;
  if (queue_.empty()) return true;
  make_busy();
  return false;
}

bool OutLink::progress() noexcept {
  bool moved = false;
  if (state_ == State::expecting || state_ == State::refused) moved = adopt();
  if ((state_ == State::refused || state_ == State::expecting) && Clock::now() >= retry_at_) connect();
  if (state_ == State::connecting) moved = continue_connecting();
  if (state_ == State::open && heard_) moved |= listen();
  if (state_ == State::open && doubt_ != 0) return settle_doubt();
  if (state_ == State::open) moved |= write();
  return moved;
}

bool OutLink::busy() const noexcept {
  switch (state_) {
    case State::expecting:
    case State::connecting:
    case State::refused:
      return true;
    case State::open:
      return !queue_.empty() || heard_;
    default:
      return false;
  }
}

bool OutLink::retire() noexcept {
  on_busy_list_ = busy();
  return !on_busy_list_;
}

void OutLink::make_busy() noexcept {
  if (!on_busy_list_) context_.busy.push_back(this);
  on_busy_list_ = true;
}

void OutLink::arm() noexcept {
  if (state_ == State::refused || state_ == State::expecting) context_.reactor.wake_by(retry_at_);
  if (state_ == State::connecting) context_.reactor.wake_by(give_up_at_);
  if (connecting_) connecting_->arm();
  for (std::size_t i = 0; i < sockets_.size(); ++i)
    if (queue_.has_for(i))
      context_.reactor.wait_writable(sockets_[i].get(), [this, i] {  // to wake this rank is enough
        if (reader_) context_.reactor.unwatch(sockets_[i].get());
      });
}

void OutLink::disconnect() noexcept {
  take_sockets().clear();
  heard_ = false;
  last_frame_.clear();
}

void OutLink::cut() noexcept {
  if (connecting_) connecting_->cut();
  for (const net::Socket& socket : sockets_) net::shut_down(socket);
}

std::vector<net::Socket> OutLink::release() noexcept {
  state_ = State::dead;
  return take_sockets();
}

std::vector<net::Socket> OutLink::take_sockets() noexcept {
  if (reader_) std::exchange(reader_, nullptr)->part();
  if (connecting_) sockets_ = connecting_->take();
  connecting_.reset();
  for (const net::Socket& socket : sockets_)
    if (socket) context_.reactor.unwatch(socket.get());
  return std::exchange(sockets_, {});
}

// ---- Sending ---------------------------------------------------------------------------------------------------

bool OutLink::write() noexcept {
  bool has_moved = false;
  for (std::size_t i = 0; i < sockets_.size(); ++i) {
    if (!queue_.has_for(i)) continue;
    const net::Moved moved = queue_.write(sockets_[i], i);
    if (moved.failed()) {
      write_failed(moved.error);
      return true;
    }
    sent_bytes_ += moved.bytes;
    has_moved |= moved.bytes > 0;
  }
  if (has_moved)
    queue_.settle([this](Token token) {
      if (!quiet_) context_.sink->sent(*this, token);
    });
  return has_moved;
}

bool OutLink::flush(Clock::time_point deadline) noexcept {
  while (!ended() && !queue_.empty() && Clock::now() < deadline) {
    if (progress()) continue;
    const bool pausing = state_ == State::refused || state_ == State::expecting;
    const auto until = pausing ? std::min(deadline, retry_at_) : deadline;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
    const auto pause = static_cast<int>(std::clamp<std::chrono::milliseconds>(left, 0ms, longest_pause).count());
    if (connecting_) {
      connecting_->wait(pause);
    } else if (hear(sockets_, queue_, pause)) {
      if (reader_) reader_->drain();
      heard_ = reader_ == nullptr;
    }
  }
  return ended() || queue_.empty();
}

// A link aside does not wait for a peer that does not answer, since that has probably gone. A peer that has seen the
// handshake may have accepted this link already, and would take an end without a bye for this rank's death.
void OutLink::say_bye() noexcept {
  const bool is_seen = state_ == State::open || (connecting_ && connecting_->is_seen());
  if (is_aside() && !is_seen) {
    disconnect();
    state_ = State::dead;
    return;
  }
  quiet_ = said_bye_ = true;
  if (state_ != State::idle && !ended()) queue_.add({encode(Frame{.kind = FrameKind::bye}), {}, 0});
}

// ---- Frames of the peer, and the end ------------------------------------------------------------------------------

bool OutLink::listen() noexcept {
  const int error = read_last_frame();
  if (error == EAGAIN) return heard_ = false;
  if (error != 0) lost(error);
  return true;
}

/// 0: the peer's last frame has ended the link. Else why nothing more can be read.
int OutLink::read_last_frame() noexcept {
  if (const int error = last_frame_.read(sockets_.front()); error != 0) return error;
  const std::optional<Frame> frame = last_frame_.frame();
  if (!frame) {
    lose(Certainty::sure, is_nonsense(context_, peer()));
  } else if (frame->kind == FrameKind::abort) {
    lose(Certainty::sure, told_by(*frame, last_frame_.reason()));
  } else {
    disconnect();
    state_ = State::left;
    if (!queue_.empty()) refuse();
  }
  return 0;
}

void OutLink::refuse() noexcept { lose(Certainty::sure, has_closed(context_, peer())); }

// The last message of a peer explains more than the error of a write.
void OutLink::write_failed(int error) noexcept {
  if (reader_) {
    doubt_ = error;
    reader_->resume();
    make_busy();
  } else if (read_last_frame() != 0) {
    lost(error);
  }
}

/// If the connection has ended, the reader will find its end, and what the peer sent before it, unless no message is
/// wanted from it now. If it finds nothing, the error was local.
bool OutLink::settle_doubt() noexcept {
  if (reader_ && !reader_->idle() && reader_->misses() == 0) return false;
  lost(doubt_);
  return true;
}

void OutLink::peer_left() noexcept {
  reader_ = nullptr;
  if (state_ != State::open) return;
  disconnect();
  state_ = State::left;
  if (!queue_.empty()) refuse();
}

void OutLink::peer_failed(Certainty certainty, const Error& reason) noexcept {
  reader_ = nullptr;
  if (state_ == State::open) lose(certainty, reason);
}

void OutLink::peer_lost(int error) noexcept {
  reader_ = nullptr;
  if (state_ == State::open) lost(error);
}

void OutLink::check_acknowledgements(Clock::time_point now, std::chrono::milliseconds pause) noexcept {
  if (state_ != State::open) return acknowledgements_.reset();
  const auto silence = acknowledgements_.silence(sockets_, now, pause, context_.tls_proxies.get());
  if (silence < 2 * context_.lost_after) return;
  // The connections stay open as long as the link. Their end could reach the peer as a reset, and the peer would take
  // this process for dead before it is told what has happened.
  give_up(Certainty::sure, is_unacknowledged(context_, peer(), silence));
}

void OutLink::lost(int error) noexcept {
  lose(Certainty::echo, is_lost(context_, peer(), sent_bytes_, context_.reason_of_end(sockets_, error)));
}

void OutLink::lose(Certainty certainty, const Error& reason) noexcept {
  disconnect();
  give_up(certainty, reason);
}

void OutLink::give_up(Certainty certainty, const Error& reason) noexcept {
  state_ = State::dead;
  queue_.clear();
  if (!quiet_) context_.lose(*this, certainty, reason);
}

}  // namespace tutti::transport::tcp
