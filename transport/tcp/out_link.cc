// The sending end of a link.
//
//   idle --send--> (expecting -->) connecting --> greeting --> (securing -->) open --bye from the peer--> left
//                      |            |     ^            |            |           |
//                      |          refused-+------------+------------+         dead  (also from the others, when time is
//                      +--the peer has connected--> open                            up, the peer is a stranger, or a
//                                                                                   link aside is to say bye)
//
// How it gets there is in out_link_connect.cc. A message that finds an open connection and an empty queue goes out from
// send() in one call, header and payload together. What the socket does not take waits in the queue; progress()
// sends as many waiting messages as fit. Short messages that answer what one read has brought wait for each other.

#include "transport/tcp/out_link.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "transport/tcp/in_link.h"

namespace tutti::transport::tcp {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t pieces_per_write = 64;
/// One call copies at most so much, so that other links get their turn.
constexpr std::size_t bytes_per_write = std::size_t{1} << 20;
/// One read may bring a hundred requests; their answers share a write. Longer ones are not to wait for anything.
constexpr std::size_t longest_reply = 2048;
constexpr auto longest_pause = 250ms;

/// Pieces of one write.
struct Gather {
  std::array<iovec, pieces_per_write> pieces;
  std::size_t count = 0;
  std::size_t bytes = 0;

  bool full() const { return count + 2 > pieces.size() || bytes >= bytes_per_write; }
  void add(std::span<const std::byte> piece) {
    if (piece.empty()) return;
    const std::size_t size = std::min(piece.size(), bytes_per_write - std::min(bytes, bytes_per_write));
    if (size == 0) return;
    pieces[count++] = {const_cast<std::byte*>(piece.data()), size};  // iovec serves readers and writers alike
    bytes += size;
  }
  std::span<iovec> all() { return std::span(pieces).first(count); }
};

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
  Message message{encode(frame), payload, token};
  if (context_.digesting && state_ == State::open && payload.size() <= longest_reply) {
    if (!replies_) context_.replies.push_back(this);
    replies_ = true;
  } else if (state_ == State::open && !unsent() && write_first(message)) {
    return true;
  }
  if (ended()) return false;
  queue_.push_back(message);
  make_busy();
  return false;
}

void OutLink::write_replies() noexcept {
  replies_ = false;
  if (state_ == State::open && doubt_ == 0) write();
}

/// Sends what the socket takes of the only message. True: all of it.
bool OutLink::write_first(Message& message) noexcept {
  Gather gather;
  gather.add(message.header);
  gather.add(message.payload);
  const net::Moved moved = net::write_some(socket_, gather.all());
  if (moved.failed()) {
    write_failed(moved.error);
    if (state_ == State::left) refuse();
    return false;
  }
  message.done = moved.bytes;
  sent_bytes_ += moved.bytes;
  return message.rest() == 0;
}

bool OutLink::progress() noexcept {
  bool moved = false;
  if (state_ == State::expecting || state_ == State::refused) moved = adopt();
  if ((state_ == State::refused || state_ == State::expecting) && Clock::now() >= retry_at_) connect();
  if (state_ == State::connecting) moved = continue_connecting();
  if (state_ == State::greeting) moved |= continue_greeting();
  if (state_ == State::securing) moved |= continue_securing();
  if (state_ == State::open && heard_) moved |= listen();
  if (state_ == State::open && doubt_ != 0) return settle_doubt();
  if (state_ == State::open) moved |= write();
  return moved;
}

bool OutLink::busy() const noexcept {
  switch (state_) {
    case State::expecting:
    case State::connecting:
    case State::greeting:
    case State::securing:
    case State::refused:
      return true;
    case State::open:
      return unsent() || heard_;
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
  const bool greeting = state_ == State::greeting;
  if (state_ == State::connecting || greeting || state_ == State::securing) context_.reactor.wake_by(give_up_at_);
  if (state_ == State::connecting || (state_ == State::open && unsent()) ||
      (greeting && !handshake_->outgoing().empty()))
    context_.reactor.wait_writable(socket_.get(), [this] {  // being woken is all we want
      if (reader_) context_.reactor.unwatch(socket_.get());
    });
}

void OutLink::disconnect() noexcept {
  if (reader_) std::exchange(reader_, nullptr)->part();
  if (socket_) context_.reactor.unwatch(socket_.get());
  socket_.reset();
  handshake_.reset();
  heard_ = false;
  heard_bytes_.clear();
}

net::Socket OutLink::release() noexcept {
  if (reader_) std::exchange(reader_, nullptr)->part();
  if (socket_) context_.reactor.unwatch(socket_.get());
  net::Socket released = std::move(socket_);
  state_ = State::dead;
  return released;
}

// ---- Sending ---------------------------------------------------------------------------------------------------

bool OutLink::write() noexcept {
  if (!unsent()) return false;
  Gather gather;
  for (std::size_t i = next_; i < queue_.size() && !gather.full(); ++i) {
    const Message& message = queue_[i];
    const std::size_t of_header = std::min(message.done, frame_size);
    gather.add(std::span(message.header).subspan(of_header));
    gather.add(message.payload.subspan(message.done - of_header));
  }
  const net::Moved moved = net::write_some(socket_, gather.all());
  if (moved.failed()) write_failed(moved.error);
  if (moved.error != 0) return moved.failed();
  settle(moved.bytes);
  return true;
}

void OutLink::settle(std::size_t bytes) noexcept {
  sent_bytes_ += bytes;
  while (bytes > 0) {
    Message& message = queue_[next_];
    const std::size_t taken = std::min(bytes, message.rest());
    message.done += taken;
    bytes -= taken;
    if (message.rest() > 0) break;
    const Token token = message.token;
    ++next_;
    if (!quiet_) context_.sink->sent(*this, token);  // may send again, and so move the queue
  }
  const bool is_mostly_sent =
      next_ > 1024 && next_ > queue_.size() / 2;  // so no message is moved more than once, on average
  if (next_ >= queue_.size() || is_mostly_sent) {
    queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(std::min(next_, queue_.size())));
    next_ = 0;
  }
}

bool OutLink::flush(Clock::time_point deadline) noexcept {
  while (!ended() && unsent() && Clock::now() < deadline) {
    if (progress()) continue;
    const bool pausing = state_ == State::refused || state_ == State::expecting;
    const auto until = pausing ? std::min(deadline, retry_at_) : deadline;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
    const auto pause = static_cast<int>(std::clamp<std::chrono::milliseconds>(left, 0ms, longest_pause).count());
    const bool listening = state_ == State::securing || (state_ == State::greeting && handshake_->outgoing().empty());
    const short events = listening ? POLLIN : POLLOUT | POLLIN;
    pollfd query{.fd = socket_.get(), .events = events, .revents = 0};  // no socket: a plain pause
    if (::poll(&query, 1, pause) <= 0 || (query.revents & POLLIN) == 0) continue;
    if (reader_) {
      reader_->drain();
    } else {
      heard_ = true;
    }
  }
  return ended() || !unsent();
}

// What goes aside is worth no waiting for a peer that does not answer: that one has probably gone. One that has seen
// the handshake may have let this link in already, and would take an end without a bye for this rank's death.
void OutLink::say_bye() noexcept {
  const bool is_seen = state_ == State::greeting || state_ == State::securing || state_ == State::open;
  if (is_aside() && !is_seen) {
    disconnect();
    state_ = State::dead;
    return;
  }
  quiet_ = said_bye_ = true;
  if (state_ != State::idle && !ended()) queue_.push_back({encode(Frame{.kind = FrameKind::bye}), {}, 0});
}

// ---- What the peer says, and its end ---------------------------------------------------------------------------

bool OutLink::listen() noexcept {
  const int error = hear();
  if (error == EAGAIN) {
    heard_ = false;
    return false;
  }
  if (error != 0) lost(error);
  return true;
}

/// Reads what the peer says backwards. 0: its last frame has ended the link. Else why there is no more to read.
int OutLink::hear() noexcept {
  std::array<std::byte, 1024> room;
  for (iovec piece{room.data(), room.size()};;) {
    const net::Moved moved = net::read_some(socket_, {&piece, 1});
    if (moved.error != 0) return moved.error;
    heard_bytes_.insert(heard_bytes_.end(), room.begin(), room.begin() + static_cast<std::ptrdiff_t>(moved.bytes));
    if (understand()) return 0;
  }
}

/// True when the peer's last frame is complete; then the link has ended.
bool OutLink::understand() noexcept {
  if (heard_bytes_.size() < frame_size) return false;
  const auto frame = decode(std::span(heard_bytes_).first<frame_size>());
  if (frame && frame->kind == FrameKind::bye) {
    disconnect();
    state_ = State::left;
    if (unsent()) refuse();
    return true;
  }
  if (frame && frame->kind == FrameKind::abort && frame->length <= max_reason) {
    const auto text = std::span(heard_bytes_).subspan(frame_size);
    if (text.size() < frame->length) return false;
    lose(Certainty::sure, told_by(*frame, text.first(static_cast<std::size_t>(frame->length))));
    return true;
  }
  lose(Certainty::sure,
       {ErrorCode::mismatch,
        fmt::format("Rank {} got bytes that are not tutti's back from {}.", context_.rank, context_.name_of(peer())),
        peer()});
  return true;
}

/// There is more to send, but the peer has said bye.
void OutLink::refuse() noexcept {
  lose(Certainty::sure, {ErrorCode::peer_lost,
                         fmt::format("Rank {} cannot send to {}: that rank has closed its communicator.", context_.rank,
                                     context_.name_of(peer())),
                         peer()});
}

// What the peer said before it went explains more than the error of a write does.
void OutLink::write_failed(int error) noexcept {
  if (reader_) {
    doubt_ = error;
    reader_->resume();
    make_busy();
  } else if (hear() != 0) {
    lost(error);
  }
}

/// A connection that has ended has an end to read, and the reader tells us what lies before it, unless that is not
/// wanted yet. Where it finds nothing, the error is our own.
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
  if (unsent()) refuse();
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
  if (state_ != State::open || !is_unanswered(socket_, pause)) {
    unanswered_since_ = Clock::time_point::max();
    return;
  }
  unanswered_since_ = std::min(unanswered_since_, now);
  const auto silence = now - unanswered_since_;
  if (silence < 2 * context_.lost_after) return;
  // The connection stays open as long as the link: its end could reach the peer as a reset, and the peer would take
  // this process for dead before it hears what has happened.
  give_up(Certainty::sure,
          {ErrorCode::peer_lost,
           fmt::format(
               "The connection between ranks {} and {} is broken: what rank {} sent to {} has not been acknowledged "
               "for {} s. Both processes may be alive; a firewall on the way may have forgotten the connection, or "
               "the network between them is down.",
               context_.rank, peer(), context_.rank, context_.name_of(peer()),
               std::chrono::duration_cast<std::chrono::seconds>(silence).count()),
           peer()});
}

void OutLink::lost(int error) noexcept {
  lose(Certainty::echo, {ErrorCode::peer_lost,
                         fmt::format("Rank {} lost {} after sending it {} bytes on this link: {}. {}.", context_.rank,
                                     context_.name_of(peer()), sent_bytes_, net::text_of(error), probable_cause(error)),
                         peer()});
}

void OutLink::lose(Certainty certainty, const Error& reason) noexcept {
  disconnect();
  give_up(certainty, reason);
}

void OutLink::give_up(Certainty certainty, const Error& reason) noexcept {
  state_ = State::dead;
  queue_.clear();
  next_ = 0;
  if (!quiet_) context_.lose(*this, certainty, reason);
}

}  // namespace tutti::transport::tcp
