// The sending end of a directed link made of slots; the receiving end is in slot_link_inbound.cc.
//
// The sender copies a message into free slots at once and queues the rest. The receiver sees each message in place; a
// parked message stays there, so the ring fills up and holds the sender back. A long message may use single copy
// instead: the receiver reads it from the sender's memory, and freeing the slot returns that memory to the sender.
//
// A rank that closes a link on purpose first writes that into the ring's close record; an endpoint that vanishes
// without a close record has died. An abort is a close record, too. It therefore needs no free slot, can interrupt a
// half-sent message and overtakes a parked one.

#include "transport/memory/slot_link.h"

#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>

#include "lib/base/gpu/driver.h"
#include "lib/base/known_addresses.h"
#include "lib/base/memory_units.h"
#include "lib/base/system_calls.h"

namespace tutti::transport {
namespace {

/// Drivers map some memory so that nobody can read it through the kernel, not even its owner. A message lies in one
/// such mapping as a whole. The kernel cannot populate such memory either, which is checked here. The check takes a
/// third of the time of reading, and kernels before 5.14 refuse it for all memory.
bool can_be_read(const std::byte* address) {
  constexpr int populate_read = 22;  // MADV_POPULATE_READ, which older C libraries do not define
  const auto place = reinterpret_cast<std::uintptr_t>(address);
  if (::madvise(reinterpret_cast<void*>(place / page_bytes * page_bytes), page_bytes, populate_read) == 0) return true;
  std::byte found{};
  const iovec to{&found, 1}, from{const_cast<std::byte*>(address), 1};
  return system_calls::process_vm_readv(::getpid(), to, from) == 1;
}

/// Each address is checked once, since a check takes 0.25 us, a tenth of the time of a short exchange. Only the driver
/// of a GPU gives programs such memory for their buffers: where there is one, it may since have mapped some there. (If
/// it did so before anybody has found it, at an address that was checked, the receiver reports that it cannot read.)
bool is_readable(const std::byte* address) {
  thread_local constinit KnownAddresses readable;
  if (cuda::driver_was_found.load(std::memory_order_relaxed)) return can_be_read(address);
  if (readable.has(address)) return true;
  if (!can_be_read(address)) return false;
  readable.add(address);
  return true;
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

Error lost(int peer, const std::string& how_far) {
  return Error(ErrorCode::peer_lost,
               fmt::format("rank {} is gone: its link closed unexpectedly {}. It crashed, was killed or left early; "
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
  if (handed_over && message.held_until == 0) return true;
  queue_.push(message);
  if (handed_over) queue_.hand_over();
  host_->backlog(*this);
  return false;
}

bool OutboundSlotLink::try_send(const FrameWords& frame, std::span<const std::byte> payload) noexcept {
  if (state_ != State::open || !queue_.all_handed_over()) return false;
  const std::size_t slots = slots_for(payload.size(), payload.size(), endpoint_->areas());
  if (!writer_->has_room(slots)) return false;
  if (slots == 1) {
    if (writer_->begin(frame, payload)) endpoint_->wake_peer();
    return true;
  }
  SendQueue::Message message{frame_of(frame), payload, Token{}};
  return push(message, false);  // nobody would wait until the receiver has read it
}

bool OutboundSlotLink::try_lend(const FrameWords& frame, std::span<const std::byte> payload) noexcept {
  if (state_ != State::open || !queue_.empty() || writer_->full() || !wants_single_copy(payload)) return false;
  if (writer_->begin_single_copy(frame, payload)) endpoint_->wake_peer();
  queue_.push({.frame = {}, .rest = {}, .token = Token{}, .begun = true, .held_until = writer_->filled()});
  queue_.hand_over();
  return true;
}

bool OutboundSlotLink::is_returned() noexcept {
  if (!writer_->has_freed(queue_.front().held_until)) return false;
  queue_.pop();
  return true;
}

void OutboundSlotLink::await_return(Token token) noexcept {
  queue_.front().token = token;
  host_->backlog(*this);
}

bool OutboundSlotLink::may_lend(std::uint64_t length) const noexcept {
  return length >= CopyChoice::least_bytes && host_->copy_policy().single_copy != SingleCopy::never;
}

/// False: the link has failed; the sink has been or will be told.
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
    areas_ = host_->areas(peer(), channel());
    areas_->add_own(endpoint_->share_ring(), endpoint_->areas());
    writer_.emplace(endpoint_->ring(), *areas_, host_->copy_policy());
    state_ = State::open;
  } catch (const Error& error) {
    fail(error);
  }
}

/// Hands the message over for single copy, or copies what fits, at most a ring full so that other links get their turn.
/// True: all of it was handed over.
bool OutboundSlotLink::push(SendQueue::Message& message, bool may_use_single_copy) noexcept {
  // An eager message may be unexpected, and then its sender's memory would be needed for long.
  may_use_single_copy &= !message.begun && message.frame.kind != FrameKind::eager;
  if (may_use_single_copy && wants_single_copy(message.rest)) {
    if (writer_->full()) return false;
    if (writer_->begin_single_copy(words_of(message.frame), message.rest)) endpoint_->wake_peer();
    message.begun = true;
    message.held_until = writer_->filled();
    return true;
  }
  const std::size_t areas = endpoint_->areas();
  for (std::size_t slots = 0; slots < writer_->slots() && !writer_->full(); ++slots) {
    const auto piece = message.rest.first(piece_bytes(message.frame.length, message.rest.size(), areas));
    message.rest = message.rest.subspan(piece.size());
    const bool sleeps = message.begun ? writer_->proceed(piece) : writer_->begin(message.frame, piece);
    message.begun = true;
    if (sleeps) endpoint_->wake_peer();
    if (message.rest.empty()) return true;
  }
  return false;
}

bool OutboundSlotLink::wants_single_copy(std::span<const std::byte> message) const noexcept {
  return writer_->wants_single_copy(message.size()) && may_lend(message.size()) && is_readable(message.data());
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

/// Returns to the callers what the receiver has read. True: something was returned.
bool OutboundSlotLink::give_back(Sink* sink) noexcept {
  bool moved = false;
  while (!queue_.empty() && !queue_.is_waiting(queue_.front()) && writer_->has_freed(queue_.front().held_until)) {
    const Token token = queue_.front().token;
    queue_.pop();
    if (sink) sink->sent(*this, token);  // the sink may send on this link
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
  const CloseRecord& close_record = endpoint_->ring().from_receiver;
  const Departure departure = close_record.departure.load(std::memory_order_acquire);
  const auto words = departure == Departure::aborted ? abort_reason(close_record) : std::nullopt;
  if (words) return fail(*words);
  if (departure != Departure::closed)
    return fail(lost(peer(), fmt::format("while {} messages for it were waiting", queue_.size())));
  if (!queue_.empty()) return fail(closed(peer()));
  state_ = State::closed_by_peer;
  writer_.reset();
  endpoint_.reset();
  areas_.reset();
}

void OutboundSlotLink::fail(const Error& reason) noexcept {
  state_ = State::failing;
  reason_.emplace(reason);
  queue_.clear();
  writer_.reset();
  endpoint_.reset();
  areas_.reset();
  host_->attention();
}

bool OutboundSlotLink::arm() noexcept {
  if (state_ == State::failing) return false;
  if (queue_.empty()) return true;
  const std::uint64_t held_until = queue_.front().held_until;
  if (queue_.all_handed_over()) return writer_->arm(0, held_until);
  // Half a ring is worth a wake-up. So is room that completes the next message, however small: the sender may need that
  // completion before it can do anything else.
  const std::size_t slots = slots_for(queue_.waiting().frame.length, queue_.waiting().rest.size(), endpoint_->areas());
  return writer_->arm(std::min(slots, writer_->slots() / 2), held_until);
}

void OutboundSlotLink::disarm() noexcept {
  if (!queue_.empty()) writer_->disarm();
}

bool OutboundSlotLink::flushed() noexcept {
  if (state_ == State::open) notice_departure();
  return state_ != State::open || (queue_.empty() && endpoint_->introduced());
}

void OutboundSlotLink::say_bye() noexcept {
  if (state_ == State::open && queue_.empty()) leave(endpoint_->ring().from_sender);
}

void OutboundSlotLink::say_abort(const Error& reason) noexcept {
  // This rank may be awaited even if it has not sent anything yet, so connect for the wake-up if necessary.
  if (state_ == State::closed_by_peer || !usable()) return;
  leave(endpoint_->ring().from_sender, reason);
}

void OutboundSlotLink::cut() noexcept {
  if (state_ != State::open) return;
  // Memory offered for single copy is the caller's again. A peer that still reads it must discard what it reads.
  endpoint_->ring().from_sender.departure.store(Departure::silent);
  fail(lost(peer(), "when this rank was cut off"));
}

}  // namespace tutti::transport
