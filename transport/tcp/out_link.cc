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

}  // namespace

OutLink::OutLink(TcpContext& shared, int peer, Channel channel, Manner manner)
    : Link(peer, channel), context_(shared), shares_(manner == Manner::normal), quiet_(manner == Manner::quiet) {}

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
  } else if (state_ == State::open && queue_.empty() && write_first(message)) {
    return true;
  }
  if (ended()) return false;
  queue_.add(message);
  make_busy();
  return false;
}

void OutLink::write_replies() noexcept {
  replies_ = false;
  if (state_ == State::open && doubt_ == 0) write();
}

/// Sends as much of the only message as the socket takes. True: all of it.
bool OutLink::write_first(FrameQueue::Message& message) noexcept {
  const net::Moved moved = FrameQueue::write_one(socket_, message);
  if (moved.failed()) {
    write_failed(moved.error);
    if (state_ == State::left) refuse();
    return false;
  }
  sent_bytes_ += moved.bytes;
  return message.rest() == 0;
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
  if ((connector_ && connector_->events() == POLLOUT) || (state_ == State::open && !queue_.empty()))
    context_.reactor.wait_writable(connection().get(), [this] {  // to wake this rank is enough
      if (reader_) context_.reactor.unwatch(socket_.get());
    });
}

void OutLink::disconnect() noexcept {
  take_socket().reset();
  heard_ = false;
  last_frame_.clear();
}

net::Socket OutLink::release() noexcept {
  state_ = State::dead;
  return take_socket();
}

net::Socket OutLink::take_socket() noexcept {
  if (reader_) std::exchange(reader_, nullptr)->part();
  if (connection()) context_.reactor.unwatch(connection().get());
  net::Socket released = connector_ ? connector_->take() : std::move(socket_);
  connector_.reset();
  return released;
}

// ---- Sending ---------------------------------------------------------------------------------------------------

bool OutLink::write() noexcept {
  if (queue_.empty()) return false;
  const net::Moved moved = queue_.write(socket_);
  if (moved.failed()) write_failed(moved.error);
  if (moved.error != 0) return moved.failed();
  sent_bytes_ += moved.bytes;
  queue_.settle(moved.bytes, [this](Token token) {
    if (!quiet_) context_.sink->sent(*this, token);
  });
  return true;
}

bool OutLink::flush(Clock::time_point deadline) noexcept {
  while (!ended() && !queue_.empty() && Clock::now() < deadline) {
    if (progress()) continue;
    const bool pausing = state_ == State::refused || state_ == State::expecting;
    const auto until = pausing ? std::min(deadline, retry_at_) : deadline;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
    const auto pause = static_cast<int>(std::clamp<std::chrono::milliseconds>(left, 0ms, longest_pause).count());
    const bool listening = connector_ && connector_->events() == POLLIN;
    const short events = listening ? POLLIN : POLLOUT | POLLIN;
    pollfd query{.fd = connection().get(), .events = events, .revents = 0};  // without a socket: a plain pause
    if (::poll(&query, 1, pause) <= 0 || (query.revents & POLLIN) == 0) continue;
    if (reader_) {
      reader_->drain();
    } else {
      heard_ = true;
    }
  }
  return ended() || queue_.empty();
}

// A link aside does not wait for a peer that does not answer, since that has probably gone. A peer that has seen the
// handshake may have accepted this link already, and would take an end without a bye for this rank's death.
void OutLink::say_bye() noexcept {
  const bool is_seen = state_ == State::open || (connector_ && connector_->is_connected());
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
  if (error == EAGAIN) {
    heard_ = false;
    return false;
  }
  if (error != 0) lost(error);
  return true;
}

/// 0: the peer's last frame has ended the link. Else why nothing more can be read.
int OutLink::read_last_frame() noexcept {
  if (const int error = last_frame_.read(socket_); error != 0) return error;
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
  const auto silence = acknowledgements_.silence(socket_, now, pause);
  if (silence < 2 * context_.lost_after) return;
  // The connection stays open as long as the link. Its end could reach the peer as a reset, and the peer would take
  // this process for dead before it is told what has happened.
  give_up(Certainty::sure, is_unacknowledged(context_, peer(), silence));
}

void OutLink::lost(int error) noexcept { lose(Certainty::echo, is_lost(context_, peer(), sent_bytes_, error)); }

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
