// The sending end of a directed link made of slots; the other is in slot_link_inbound.cc.
//
// The sender copies a message into free slots at once and queues what does not fit. The receiver is shown each message
// where it lies; a parked one stays there, so that the ring fills up and holds the sender back. A long message may be
// lent instead: the receiver reads it in the sender's memory, and the sender has it back with the slot.
//
// Whoever leaves on purpose writes so into the ring's farewell before its endpoint goes; an endpoint that goes without
// one is a death. An abort is such a farewell too and so needs no free slot, can break into a half-sent message and
// overtakes a parked one.

#include "transport/memory/slot_link.h"

#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>

#include "lib/base/system_calls.h"

namespace tutti::transport {
namespace {

/// Drivers map some memory so that nobody can read it through the kernel, not even its owner. Such a message lies there
/// as a whole. The kernel cannot populate it either; to ask for that takes a third of the time of reading, but kernels
/// before 5.14 refuse it for all memory.
bool is_readable(const std::byte* address) {
  constexpr int populate_read = 22;  // MADV_POPULATE_READ, which the C library may not know yet
  constexpr std::uintptr_t page = 4096;
  const auto place = reinterpret_cast<std::uintptr_t>(address);
  if (::madvise(reinterpret_cast<void*>(place / page * page), page, populate_read) == 0) return true;
  std::byte found{};
  const iovec to{&found, 1}, from{const_cast<std::byte*>(address), 1};
  return system_calls::process_vm_readv(::getpid(), to, from) == 1;
}

Error closed(int peer) {
  return Error(ErrorCode::peer_lost,
               fmt::format("rank {} takes no more messages here: it has closed its communicator, while this rank has "
                           "one more for it",
                           peer),
               peer);
}

}  // namespace

RingEndpoint::~RingEndpoint() = default;

bool RingEndpoint::read_peer(std::span<std::byte>, std::uint64_t) noexcept {
  errno = ENOSYS;
  return false;
}

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
  if (handed_over && message.lent == 0) return true;
  queue_.push(message);
  if (handed_over) queue_.hand_over();
  host_->backlog(*this);
  return false;
}

bool OutboundSlotLink::send_at_once(const Frame& frame, std::span<const std::byte> payload) noexcept {
  const std::size_t slots = std::max<std::size_t>(1, (payload.size() + slot_bytes - 1) / slot_bytes);
  if (state_ != State::open || !queue_.all_handed_over() || may_be_lent(frame)) return false;
  if (slots > slot_count || !writer_->has_room(slots)) return false;
  SendQueue::Message message{frame, payload, Token{}};
  return push(message);
}

bool OutboundSlotLink::may_lend(std::uint64_t length) const noexcept {
  return length >= CopyChoice::least_bytes && host_->copy_policy().single_copy != SingleCopy::never;
}

void OutboundSlotLink::wake() noexcept {
  if (usable()) endpoint_->wake_peer();
}

/// False: the sink will hear, or has heard, that the link failed.
bool OutboundSlotLink::usable() noexcept {
  if (state_ == State::fresh) connect();
  if (state_ == State::closed_by_peer) fail(closed(peer()));
  return state_ == State::open;
}

void OutboundSlotLink::connect() noexcept {
  try {
    endpoint_ = host_->reach(peer(), channel());
    sample_ = static_cast<std::uint64_t>(Clock::now().time_since_epoch().count());
    endpoint_->ring().sample = {reinterpret_cast<std::uintptr_t>(&sample_), sample_};
    writer_.emplace(endpoint_->ring(), endpoint_->areas(), host_->copy_policy());
    state_ = State::open;
  } catch (const Error& error) {
    fail(error);
  }
}

/// Lends it, or copies what fits, at most a ring full so that other links get their turn. True: all of it.
bool OutboundSlotLink::push(SendQueue::Message& message) noexcept {
  if (!message.begun && is_to_lend(message)) {
    if (writer_->full()) return false;
    if (writer_->lend(message.frame, message.rest)) endpoint_->wake_peer();
    message.begun = true;
    message.lent = writer_->filled();
    return true;
  }
  for (std::size_t slots = 0; slots < slot_count && !writer_->full(); ++slots) {
    const auto piece = message.rest.first(piece_bytes(message.rest.size()));
    message.rest = message.rest.subspan(piece.size());
    const bool sleeps = message.begun ? writer_->proceed(piece) : writer_->begin(message.frame, piece);
    message.begun = true;
    if (sleeps) endpoint_->wake_peer();
    if (message.rest.empty()) return true;
  }
  return false;
}

bool OutboundSlotLink::is_to_lend(const SendQueue::Message& message) const noexcept {
  return may_be_lent(message.frame) && writer_->is_to_lend(message.frame.length) &&
         host_->copy_policy().single_copy != SingleCopy::never && is_readable(message.rest.data());
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
  if (const Error* trouble = endpoint_->trouble()) return fail(*trouble);
  if (!endpoint_->peer_left()) return;
  const Farewell& farewell = endpoint_->ring().from_receiver;
  const Parting parting = farewell.parting.load(std::memory_order_acquire);
  const auto words = parting == Parting::aborted ? last_words(farewell) : std::nullopt;
  if (words) return fail(*words);
  if (parting != Parting::closed)
    return fail(lost(peer(), fmt::format("while {} messages for it were waiting", queue_.size())));
  if (!queue_.empty()) return fail(closed(peer()));
  state_ = State::closed_by_peer;
  writer_.reset();
  endpoint_.reset();
}

void OutboundSlotLink::fail(const Error& reason) noexcept {
  state_ = State::failing;
  reason_.emplace(reason);
  queue_.clear();
  writer_.reset();
  endpoint_.reset();
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
  return state_ != State::open || (queue_.empty() && endpoint_->introduced());
}

void OutboundSlotLink::say_goodbye() noexcept {
  if (state_ == State::open && queue_.empty()) leave(endpoint_->ring().from_sender);
}

void OutboundSlotLink::say_abort(const Error& reason) noexcept {
  // A rank that has not sent anything yet may be awaited all the same: so connect for this, if need be.
  if (state_ == State::closed_by_peer || !usable()) return;
  leave(endpoint_->ring().from_sender, reason);
}

void OutboundSlotLink::cut() noexcept {
  if (state_ != State::open) return;
  // What is lent is the caller's again, and who reads there must not take it for the message.
  endpoint_->ring().from_sender.parting.store(Parting::silent);
  fail(lost(peer(), "when this rank was cut off"));
}

}  // namespace tutti::transport
