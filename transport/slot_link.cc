// The two ends of a directed link made of slots.
//
// The sender copies a message into free slots at once and queues what does not fit. The receiver is shown each message
// where it lies; a parked one stays there, so that the ring fills up and holds the sender back. A long message may be
// lent instead: the receiver reads it in the sender's memory, and the sender has it back with the slot. Whoever leaves on
// purpose writes so into the ring's farewell before its wire goes; a wire that goes without one is a death. An abort
// is such a farewell too and so needs no free slot, can break into a half-sent message and overtakes a parked one.

#include "transport/slot_link.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>

#include "lib/base/refusal.h"
#include "lib/base/system_calls.h"

namespace tutti::transport {
namespace {

/// So much of a lent message is read at a time, that other links get their turn.
constexpr std::size_t lent_bytes = 256 * 1024;

/// Shorter ones are not worth it; what comes unasked may have to wait for long until it is wanted.
bool may_be_lent(const Frame& frame) {
  return frame.length >= CopyChoice::least_bytes && frame.kind != FrameKind::eager;
}

Error lost(int peer, const std::string& how_far) {
  return Error(
      ErrorCode::peer_lost,
      fmt::format("rank {} is gone: its link closed without a goodbye {}. It crashed, was killed or left early; "
                  "its own output says more",
                  peer, how_far),
      peer);
}

Error closed(int peer) {
  return Error(ErrorCode::peer_lost,
               fmt::format("rank {} takes no more messages here: it has closed its communicator, while this rank has "
                           "one more for it",
                           peer),
               peer);
}

}  // namespace

Wire::~Wire() = default;

bool Wire::read_peer(std::span<std::byte>, std::uint64_t) noexcept {
  errno = ENOSYS;
  return false;
}

Sample LendableMemory::sample() noexcept {
  value_ = static_cast<std::uint64_t>(Clock::now().time_since_epoch().count());
  return {reinterpret_cast<std::uintptr_t>(&value_), value_};
}

bool LendableMemory::has(const std::byte* address) noexcept {
  auto& known = readable_[(reinterpret_cast<std::uintptr_t>(address) >> 12) % readable_.size()];
  if (known == address) return true;
  std::byte found{};
  const iovec to{&found, 1}, from{const_cast<std::byte*>(address), 1};
  if (system_calls::process_vm_readv(::getpid(), to, from) != 1) return false;
  known = address;
  return true;
}

void SendQueue::push(const Message& message) {
  if (empty()) {
    messages_.clear();
    head_ = waiting_ = 0;
  } else if (messages_.size() == messages_.capacity() && head_ >= messages_.size() / 2) {
    messages_.erase(messages_.begin(), messages_.begin() + static_cast<std::ptrdiff_t>(head_));
    waiting_ -= head_;
    head_ = 0;
  }
  messages_.push_back(message);
}

// ---- Outbound --------------------------------------------------------------------------------------------------

bool OutboundSlotLink::send(const Frame& frame, std::span<const std::byte> payload, Token token) noexcept {
  assert(frame.length == payload.size());
  if (!usable()) return false;
  SendQueue::Message message{frame, payload, token};
  const bool handed_over = queue_.all_handed_over() && push(message);
  if (handed_over && message.lent == 0 && queue_.empty()) return true;
  queue_.push(message);
  if (handed_over) queue_.hand_over();
  host_->backlog(*this);
  return false;
}

bool OutboundSlotLink::send_at_once(const Frame& frame, std::span<const std::byte> payload) noexcept {
  const std::size_t slots = std::max<std::size_t>(1, (payload.size() + slot_bytes - 1) / slot_bytes);
  if (state_ != State::open || !queue_.empty() || slots > slot_count || !writer_->has_room(slots)) return false;
  SendQueue::Message message{frame, payload, Token{}};
  return push(message);  // too short to be lent
}

void OutboundSlotLink::wake() noexcept {
  if (usable()) wire_->wake_peer();
}

/// False: the sink will hear, or has heard, that the link failed.
bool OutboundSlotLink::usable() noexcept {
  if (state_ == State::fresh) connect();
  if (state_ == State::closed_by_peer) fail(closed(peer()));
  return state_ == State::open;
}

void OutboundSlotLink::connect() noexcept {
  try {
    wire_ = host_->reach(peer(), channel());
    wire_->ring().sample = lendable_.sample();
    writer_.emplace(wire_->ring(), wire_->areas(), host_->stores());
    state_ = State::open;
  } catch (const Error& error) {
    fail(error);
  }
}

/// Lends it, or copies what fits, at most a ring full so that other links get their turn. True: all of it.
bool OutboundSlotLink::push(SendQueue::Message& message) noexcept {
  const bool is_long = !message.begun && may_be_lent(message.frame);
  if (is_long && writer_->is_to_lend(message.frame.length) && lendable_.has(message.rest.data())) {
    if (writer_->full()) return false;
    if (writer_->lend(message.frame, message.rest)) wire_->wake_peer();
    message.begun = true;
    message.lent = writer_->filled();
    return true;
  }
  for (std::size_t slots = 0; slots < slot_count && !writer_->full(); ++slots) {
    const auto piece = message.rest.first(piece_bytes(message.rest.size()));
    message.rest = message.rest.subspan(piece.size());
    const bool sleeps = message.begun ? writer_->proceed(piece) : writer_->begin(message.frame, piece);
    message.begun = true;
    if (sleeps) wire_->wake_peer();
    if (message.rest.empty()) return true;
  }
  return false;
}

bool OutboundSlotLink::push(Sink* sink) noexcept {
  bool moved = give_back(sink);
  while (!queue_.all_handed_over() && !writer_->full()) {
    moved = true;
    if (!push(queue_.waiting())) break;
    queue_.hand_over();
    give_back(sink);
  }
  return moved;
}

/// What the receiver does not need any more where it was. True: something.
bool OutboundSlotLink::give_back(Sink* sink) noexcept {
  bool moved = false;
  while (!queue_.empty() && !queue_.is_waiting(queue_.front()) && writer_->has_freed(queue_.front().lent)) {
    const Token token = queue_.front().token;
    queue_.pop();
    if (sink) sink->sent(*this, token);  // may send on this very link
    moved = true;
  }
  return moved;
}

bool OutboundSlotLink::attend(Sink& sink) noexcept {
  if (state_ == State::open) notice_departure();
  if (state_ != State::failing) return false;
  state_ = State::over;
  sink.failed(*this, *reason_);
  return true;
}

void OutboundSlotLink::notice_departure() noexcept {
  if (const Error* trouble = wire_->trouble()) return fail(*trouble);
  if (!wire_->peer_left()) return;
  const Farewell& farewell = wire_->ring().from_receiver;
  const Parting parting = farewell.parting.load(std::memory_order_acquire);
  const auto words = parting == Parting::aborted ? last_words(farewell) : std::nullopt;
  if (words) return fail(*words);
  if (parting != Parting::closed)
    return fail(lost(peer(), fmt::format("while {} messages for it were waiting", queue_.size())));
  if (!queue_.empty()) return fail(closed(peer()));
  state_ = State::closed_by_peer;
  writer_.reset();
  wire_.reset();
}

void OutboundSlotLink::fail(const Error& reason) noexcept {
  state_ = State::failing;
  reason_.emplace(reason);
  queue_.clear();
  writer_.reset();
  wire_.reset();
  host_->attention();
}

bool OutboundSlotLink::arm() noexcept {
  if (state_ == State::failing) return false;
  if (queue_.empty()) return true;
  const std::uint64_t lent = queue_.front().lent;
  if (queue_.all_handed_over()) return writer_->arm(0, lent);
  // Half a ring is worth waking up for. So is what completes the next message, however small: its sender may need
  // that before anything else can move.
  const std::size_t slots = (queue_.waiting().rest.size() + slot_bytes - 1) / slot_bytes;
  return writer_->arm(std::clamp(slots, std::size_t{1}, slot_count / 2), lent);
}

void OutboundSlotLink::disarm() noexcept {
  if (!queue_.empty()) writer_->disarm();
}

bool OutboundSlotLink::flushed() noexcept {
  if (state_ == State::open) notice_departure();
  return state_ != State::open || (queue_.empty() && wire_->introduced());
}

void OutboundSlotLink::say_goodbye() noexcept {
  if (state_ == State::open && queue_.empty()) leave(wire_->ring().from_sender);
}

void OutboundSlotLink::say_abort(const Error& reason) noexcept {
  // A rank that has not sent anything yet may be awaited all the same: so connect for this, if need be.
  if (state_ == State::closed_by_peer || !usable()) return;
  leave(wire_->ring().from_sender, reason);
}

void OutboundSlotLink::cut() noexcept {
  if (state_ == State::open) fail(lost(peer(), "when this rank was cut off"));
}

// ---- Inbound ---------------------------------------------------------------------------------------------------

InboundSlotLink::InboundSlotLink(int peer, Channel channel, std::unique_ptr<Wire> wire, SingleCopy mode)
    : Link(peer, channel), wire_(std::move(wire)), reader_(wire_->ring(), wire_->areas()), choice_(mode) {}

bool InboundSlotLink::send(const Frame&, std::span<const std::byte>, Token) noexcept {
  assert(false && "an incoming link cannot send");
  return false;
}

void InboundSlotLink::resume() noexcept {
  parked_ = false;
  resumed_ = true;
}

bool InboundSlotLink::pull(Sink& sink, std::size_t most_slots) noexcept {
  if (over_) return false;
  bool moved = false;
  for (std::size_t slots = 0; slots < most_slots && !parked_ && reader_.ready(); ++slots) {
    moved = true;
    if (!inside_ && !begin(sink)) break;
    if (!lent_) {
      take_slot(sink);
    } else if (!take_lent(sink)) {
      break;
    }
  }
  // What the peer left behind counts once the ring is empty. Only an abort does not wait behind a parked message.
  if (moved || over_ || !departed_) return moved;
  if (parked_ && parting() != Parting::aborted) return false;
  conclude(sink);
  return true;
}

Link::Taken InboundSlotLink::take(const FrameWords& frame, std::span<std::byte> to) noexcept {
  if (over_ || parked_ || inside_) return Taken::something_else;
  if (!reader_.ready()) return departed_ ? Taken::something_else : Taken::nothing_there;
  if (to.size() > slot_bytes || !reader_.begins_with(frame)) return Taken::something_else;
  if (!to.empty()) std::memcpy(to.data(), reader_.piece(to.size(), to.size()).data(), to.size());
  release();
  return Taken::taken;
}

/// Asks the sink about the message in the next slot. False: it stays there, or it is none.
bool InboundSlotLink::begin(Sink& sink) noexcept {
  const std::optional<Frame> frame = reader_.frame();
  if (!frame) {
    fail(sink, Error(ErrorCode::mismatch,
                     fmt::format("rank {} wrote something that is no message of this version of tutti; all ranks must "
                                 "run the same one",
                                 peer()),
                     peer()));
    return false;
  }
  frame_ = *frame;
  resumed_ = false;
  const Acceptance acceptance = sink.arrived(*this, frame_);
  if (acceptance.kind == Acceptance::Kind::park) {
    parked_ = !resumed_;
    return false;
  }
  assert(acceptance.kind != Acceptance::Kind::memory || acceptance.memory.size() == frame_.length);
  destination_ = acceptance.kind == Acceptance::Kind::memory ? acceptance.memory.data() : nullptr;
  copy_ = acceptance.copy;
  rest_ = frame_.length;
  inside_ = true;
  lent_from_ = reader_.lent_from(frame_.length);
  lent_ = lent_from_ != 0;
  if (!may_be_lent(frame_) || !choice_.may_lend()) return true;
  if (!can_read_) try_to_read();
  slots_before_ = lent_ ? 0 : reader_.ready_slots();
  began_ = Clock::now();
  return true;
}

/// Nothing is lent before it is known that it can be read.
void InboundSlotLink::try_to_read() noexcept {
  const Sample sample = wire_->ring().sample;
  std::uint64_t found = 0;
  can_read_ = wire_->read_peer(std::as_writable_bytes(std::span{&found, 1}), sample.address) && found == sample.value;
  if (!can_read_) choice_.give_up();
  reader_.wish(choice_.wishes());
}

void InboundSlotLink::take_slot(Sink& sink) noexcept {
  const auto piece = reader_.piece(frame_.length, rest_);
  if (!piece.empty()) {
    if (destination_) {
      if (copy_) {
        copy_(destination_, piece.data(), piece.size());
      } else {
        std::memcpy(destination_, piece.data(), piece.size());
      }
      destination_ += piece.size();
    } else {
      sink.view(*this, piece);
    }
    rest_ -= piece.size();
  }
  if (rest_ == 0) return finish(sink);
  release();
}

/// The next piece of a message in the sender's memory. False: the link has failed.
bool InboundSlotLink::take_lent(Sink& sink) noexcept {
  const std::span<std::byte> room = destination_ ? std::span{destination_, lent_bytes} : reader_.scratch(frame_.length);
  const std::span<std::byte> piece = room.first(static_cast<std::size_t>(std::min<std::uint64_t>(rest_, room.size())));
  const bool read = wire_->read_peer(piece, lent_from_);
  // Who aborts has its memory back at once, and may have written there.
  if (!read || parting() != Parting::none) {
    stop_reading(sink, read ? 0 : errno);
    return false;
  }
  if (destination_) {
    destination_ += piece.size();
  } else {
    sink.view(*this, piece);
  }
  lent_from_ += piece.size();
  rest_ -= piece.size();
  if (rest_ == 0) finish(sink);
  return true;
}

/// The message is complete.
void InboundSlotLink::finish(Sink& sink) noexcept {
  release();
  inside_ = false;
  if (can_read_ && may_be_lent(frame_)) note_how_it_came();
  sink.received(*this);
}

void InboundSlotLink::note_how_it_came() noexcept {
  const auto slots = (frame_.length + slot_bytes - 1) / slot_bytes;
  const auto before = std::min<std::uint64_t>(slots_before_, slots);
  if (destination_) {
    choice_.took(frame_.length, lent_, (Clock::now() - began_) * (slots + before) / slots);
  } else {
    choice_.summed(frame_.length);
  }
  reader_.wish(choice_.wishes());
}

/// The sender has aborted (0), or its memory is not there any more.
void InboundSlotLink::stop_reading(Sink& sink, int error) noexcept {
  if (error == 0 || error == ESRCH) return conclude(sink);
  fail(sink, Error(ErrorCode::system,
                   fmt::format("cannot read what rank {} sends out of its memory: {}. It must stay there until the call "
                               "has ended; if it does, TUTTI_SINGLE_COPY=off does without reading",
                               peer(), refusal(error)),
                   peer()));
}

void InboundSlotLink::release() noexcept {
  if (reader_.release()) wire_->wake_peer();
}

void InboundSlotLink::attend() noexcept {
  if (!over_ && !departed_) departed_ = wire_->peer_left();
}

Parting InboundSlotLink::parting() const noexcept {
  return wire_->ring().from_sender.parting.load(std::memory_order_acquire);
}

/// The peer has left and all it sent has been delivered, as far as it may be.
void InboundSlotLink::conclude(Sink& sink) noexcept {
  if (const auto words = parting() == Parting::aborted ? last_words(wire_->ring().from_sender) : std::nullopt)
    return fail(sink, *words);
  if (inside_ || parting() != Parting::closed) {
    const auto how_far =
        inside_ ? fmt::format("when {} of {} bytes of a message had arrived", frame_.length - rest_, frame_.length)
                : std::string("between two messages");
    return fail(sink, lost(peer(), how_far));
  }
  over_ = true;
  wire_.reset();
}

void InboundSlotLink::fail(Sink& sink, const Error& reason) noexcept {
  over_ = true;
  wire_.reset();
  sink.failed(*this, reason);
}

bool InboundSlotLink::arm() noexcept {
  if (over_) return true;
  if (departed_) return parked_ && parting() != Parting::aborted;
  return parked_ || reader_.arm();
}

void InboundSlotLink::disarm() noexcept {
  if (!over_ && !parked_) reader_.disarm();
}

bool InboundSlotLink::discard() noexcept {
  if (over_) return false;
  parked_ = false;
  bool moved = false;
  for (std::size_t slots = 0; slots < slot_count && reader_.ready(); ++slots) {
    release();
    moved = true;
  }
  if (departed_ && !moved) {
    over_ = true;
    wire_.reset();
  }
  return moved;
}

void InboundSlotLink::cut() noexcept {
  if (!over_) wire_->cut();
}

void InboundSlotLink::say_goodbye() noexcept {
  if (!over_) leave(wire_->ring().from_receiver);
}

void InboundSlotLink::say_abort(const Error& reason) noexcept {
  if (!over_) leave(wire_->ring().from_receiver, reason);
}

}  // namespace tutti::transport
