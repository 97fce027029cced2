// The receiving end of a link made of slots.
//
// The receiver sees each message in place, in its slots or in the sender's memory; a parked message stays there. The
// close record of a sender takes effect after everything before it was read; only an abort takes effect at once.

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cerrno>

#include "lib/base/pause.h"
#include "lib/base/system_error_text.h"
#include "transport/memory/slot_link.h"

namespace tutti::transport {
namespace {

/// Bytes of a single-copy message that are read in one pass over all links, so that others get their turn. Each read
/// looks up pages in the kernel (sendrecv of 16 MiB between 2 ranks: 2,200 us with 256 KiB, 2,000 with 1 MiB, 1,930
/// with 2 MiB).
constexpr std::size_t single_copy_piece = std::size_t{1} << 20;
/// Looks at the next slot in the middle of a message, which its sender is filling unless it has lost its core.
constexpr int most_tries = 100;

}  // namespace

InboundSlotLink::InboundSlotLink(int peer, Channel channel, std::unique_ptr<RingEndpoint> endpoint,
                                 std::shared_ptr<Areas> areas, const CopyPolicy& copy_policy,
                                 std::shared_ptr<CopyChoice> choice)
    : Link(peer, channel),
      endpoint_(std::move(endpoint)),
      areas_(std::move(areas)),
      reader_(endpoint_->ring(), *areas_),
      choice_(std::move(choice)),
      plain_copy_(copy_policy.plain),
      shares_cores_(copy_policy.cores_are_shared),
      clocks_(copy_policy.clocks) {
  areas_->add_theirs(endpoint_->share_ring(), endpoint_->areas());
}

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
    if (!is_single_copy_) {
      take_slot(sink);
      continue;
    }
    const std::size_t bytes = take_single_copy(sink);
    if (bytes == 0) break;
    slots += (bytes - 1) / slot_bytes;
  }
  // The peer's close record takes effect once the ring is empty. Only an abort does not wait behind a parked message.
  if (moved || over_ || !departed_) return moved;
  if (parked_ && departure() != Departure::aborted) return false;
  conclude(sink);
  return true;
}

bool InboundSlotLink::pull_short(Sink& sink) noexcept {
  has_more_ = inside_ || departed_;
  bool moved = false;
  for (std::size_t slots = 0; slots < slot_count && !over_ && !parked_ && !inside_ && reader_.ready(); ++slots) {
    if (reader_.claimed_length() > short_bytes) {
      has_more_ = true;
      break;
    }
    moved |= pull(sink, 1);
    if (resumed_) break;  // in arrived(): it is offered again in the next pass
  }
  return moved;
}

Link::Taken InboundSlotLink::take(const FrameWords& frame, std::span<std::byte> to, int senders_to_root) noexcept {
  if (over_ || parked_ || inside_) return Taken::something_else;
  if (!reader_.ready()) return departed_ ? Taken::something_else : Taken::nothing_there;
  if (!reader_.begins_with(frame)) return Taken::something_else;
  if (to.size() >= CopyChoice::least_bytes) {  // shorter ones are of one piece
    const Acceptance acceptance{.kind = Acceptance::Kind::memory, .memory = to, .senders_to_root = senders_to_root};
    const std::uint64_t address = reader_.single_copy_address(to.size());
    return address != 0 ? take_lent(acceptance, address) : take_pieces(acceptance);
  }
  if (!to.empty()) plain_copy_(to.data(), reader_.piece(to.size(), to.size()).data(), to.size());
  release();
  return Taken::taken;
}

/// The sender is probably filling the next slots just now, unless it needs this core to do so.
Link::Taken InboundSlotLink::take_pieces(const Acceptance& acceptance) noexcept {
  begin({.kind = FrameKind::eager, .length = acceptance.memory.size()}, acceptance, false);
  for (int tries = 0;;) {
    copy(reader_.piece(frame_.length, rest_));
    if (rest_ == 0) break;
    reader_.go_on();
    for (; !reader_.ready(); ++tries) {
      if (tries == most_tries || shares_cores_) {
        if (reader_.sender_sleeps()) endpoint_->wake_peer();
        return Taken::begun;
      }
      pause_briefly();
    }
  }
  end();
  return Taken::taken;
}

/// The sink handles what is out of the ordinary.
Link::Taken InboundSlotLink::take_lent(const Acceptance& acceptance, std::uint64_t address) noexcept {
  const std::span<std::byte> to = acceptance.memory;
  if (!can_read_ || to.size() > single_copy_piece) return Taken::something_else;
  begin({.kind = FrameKind::eager, .length = to.size()}, acceptance, true);
  if (!read_from_sender(to, address)) {
    inside_ = false;
    return Taken::something_else;
  }
  end();
  return Taken::taken;
}

/// All that is known of a message before its payload is read.
void InboundSlotLink::begin(const Frame& frame, const Acceptance& acceptance, bool is_single_copy) noexcept {
  frame_ = frame;
  destination_ = acceptance.kind == Acceptance::Kind::memory ? acceptance.memory.data() : nullptr;
  copy_ = acceptance.copy ? acceptance.copy : plain_copy_;
  rest_ = frame.length;
  inside_ = true;
  is_single_copy_ = is_single_copy;
  is_timed_ = false;
  if (!allows_single_copy(frame) || is_unreadable_ || !choice_->may_lend()) return;
  if (!can_read_) try_to_read();
  is_timed_ =
      choice_->is_trying(frame.length, is_single_copy_) || (is_single_copy_ && choice_->is_watching(frame.length));
  if (!is_timed_) return;
  if (is_single_copy_ || acceptance.senders_to_root > (shares_cores_ ? 1 : 0)) {
    slots_to_count_ = 0;
  } else {
    slots_to_count_ =
        shares_cores_ ? slots_for(frame.length, frame.length, areas_->of_theirs()) : reader_.ready_slots();
  }
  timed_ = timed_pieces(frame.length, areas_->of_theirs(), shares_cores_);
  timed_bytes_ = 0;
  copying_ = {};
  began_ = clocks_.elapsed();
}

/// Offers the message in the next slot to the sink. False: the message was parked, or is invalid.
bool InboundSlotLink::begin(Sink& sink) noexcept {
  const std::optional<Frame> frame = reader_.frame();
  if (!frame) {
    fail(sink,
         Error(ErrorCode::mismatch,
               fmt::format("rank {} sent something that is not a message of this version of tutti; all ranks must "
                           "run the same version",
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
  address_ = reader_.single_copy_address(frame_.length);
  if (address_ != 0 && !can_read_) {
    fail(sink,
         Error(ErrorCode::mismatch,
               fmt::format(
                   "rank {} sent a single-copy message that was not asked for; all ranks must run the same version "
                   "of tutti",
                   peer()),
               peer()));
    return false;
  }
  begin(*frame, acceptance, address_ != 0);
  return true;
}

template <class Copy>
void InboundSlotLink::spend_on(bool is_timed, std::size_t bytes, Copy&& copy) noexcept {
  // Where ranks share cores, the wall clock would also count the time for which another one has the core.
  if (!is_timed || !shares_cores_) return copy();
  copying_ += clocks_.time_of(true, copy);
  timed_bytes_ += bytes;
}

/// Senders offer single copy only after this test has succeeded.
void InboundSlotLink::try_to_read() noexcept {
  const Sample sample = endpoint_->ring().sample;
  std::uint64_t found = 0;
  can_read_ =
      endpoint_->read_peer(std::as_writable_bytes(std::span{&found, 1}), sample.address) && found == sample.value;
  is_unreadable_ = !can_read_;
  if (is_unreadable_) return endpoint_->say_unreadable(errno);
  reader_.wish(choice_->wishes());
}

void InboundSlotLink::take_slot(Sink& sink) noexcept {
  const auto piece = reader_.piece(frame_.length, rest_);
  if (!piece.empty()) {
    if (destination_) {
      copy(piece);
    } else {
      sink.view(*this, piece);
      rest_ -= piece.size();
    }
  }
  if (rest_ == 0) return finish(sink);
  release();
}

void InboundSlotLink::copy(std::span<const std::byte> piece) noexcept {
  if (reader_.is_first_use(frame_.length, piece.size())) is_timed_ = false;
  const bool is_timed = is_timed_ && timed_.next();
  if (is_timed && slots_to_count_ > 0) {
    --slots_to_count_;
    const auto time = reader_.filling_time();
    is_timed_ = time.count() > 0;  // the sender may not have seen the wish yet
    copying_ += time;
  }
  spend_on(is_timed, piece.size(), [&] { copy_(destination_, piece.data(), piece.size()); });
  destination_ += piece.size();
  rest_ -= piece.size();
}

/// Copies from the sender's memory. False: it could not, and `errno` has the reason, or the sender has left.
bool InboundSlotLink::read_from_sender(std::span<std::byte> to, std::uint64_t address) noexcept {
  int error = 0;
  spend_on(is_timed_, to.size(), [&] { error = endpoint_->read_peer(to, address) ? 0 : errno; });
  // A sender that aborts has its memory back at once, and may have overwritten or freed it.
  std::atomic_thread_fence(std::memory_order_acquire);
  errno = error;
  return error == 0 && departure() == Departure::none;
}

/// Reads the next piece of a message from the sender's memory and returns its length. 0: the link has failed.
std::size_t InboundSlotLink::take_single_copy(Sink& sink) noexcept {
  const auto size = static_cast<std::size_t>(
      std::min<std::uint64_t>(rest_, destination_ ? single_copy_piece : reader_.scratch().size()));
  const auto piece = destination_ ? std::span{destination_, size} : reader_.scratch().first(size);
  if (!read_from_sender(piece, address_)) {
    stop_reading(sink, errno);
    return 0;
  }
  if (destination_) {
    destination_ += piece.size();
  } else {
    sink.view(*this, piece);
  }
  address_ += piece.size();
  rest_ -= piece.size();
  if (rest_ == 0) finish(sink);
  return size;
}

void InboundSlotLink::finish(Sink& sink) noexcept {
  end();
  sink.received(*this);
}

/// The message is complete.
void InboundSlotLink::end() noexcept {
  release();
  inside_ = false;
  if (can_read_ && allows_single_copy(frame_)) note_how_it_came();
}

void InboundSlotLink::note_how_it_came() noexcept {
  if (destination_) {
    if (!is_timed_ && choice_->is_trying(frame_.length, is_single_copy_)) return;
    choice_->took(frame_.length, is_single_copy_, is_timed_ ? time_taken() : std::chrono::nanoseconds{});
  } else {
    choice_->summed(frame_.length);
  }
  reader_.wish(choice_->wishes());
}

/// That of a timed message, including its sender's work before it was seen, unless that took no time of the call.
std::chrono::nanoseconds InboundSlotLink::time_taken() const noexcept {
  if (!shares_cores_) return copying_ + (clocks_.elapsed() - began_);
  const double all = static_cast<double>(frame_.length) / static_cast<double>(timed_bytes_);
  return std::chrono::duration_cast<std::chrono::nanoseconds>(copying_ * all);
}

/// The sender has left, or its memory is not mapped any more.
void InboundSlotLink::stop_reading(Sink& sink, int error) noexcept {
  if (departure() != Departure::none || error == ESRCH) return conclude(sink);
  fail(sink, Error(ErrorCode::peer_lost,
                   fmt::format(
                       "cannot read a message of rank {} from its memory: {}. Buffers must stay mapped until the call "
                       "has ended; if they do, TUTTI_SINGLE_COPY=off avoids reading them",
                       peer(), refusal(error)),
                   peer()));
}

void InboundSlotLink::release() noexcept {
  if (reader_.release()) endpoint_->wake_peer();
}

void InboundSlotLink::attend() noexcept {
  if (!over_ && !departed_) departed_ = endpoint_->peer_left();
}

Departure InboundSlotLink::departure() const noexcept {
  return endpoint_->ring().from_sender.departure.load(std::memory_order_acquire);
}

/// The peer has left, and all of its messages that can be delivered have been.
void InboundSlotLink::conclude(Sink& sink) noexcept {
  if (const auto words = departure() == Departure::aborted ? abort_reason(endpoint_->ring().from_sender) : std::nullopt)
    return fail(sink, *words);
  if (inside_ || departure() != Departure::closed) {
    const auto how_far =
        inside_ ? fmt::format("when {} of {} bytes of a message had arrived", frame_.length - rest_, frame_.length)
                : std::string("between two messages");
    return fail(sink, lost(peer(), how_far));
  }
  over_ = true;
  endpoint_.reset();
  areas_.reset();
}

void InboundSlotLink::fail(Sink& sink, const Error& reason) noexcept {
  over_ = true;
  endpoint_.reset();
  areas_.reset();
  sink.failed(*this, reason);
}

bool InboundSlotLink::arm() noexcept {
  if (over_) return true;
  if (departed_) return parked_ && departure() != Departure::aborted;
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
    endpoint_.reset();
    areas_.reset();
  }
  return moved;
}

void InboundSlotLink::cut() noexcept {
  if (!over_) endpoint_->cut();
}

void InboundSlotLink::say_bye() noexcept {
  if (!over_) leave(endpoint_->ring().from_receiver);
}

void InboundSlotLink::say_abort(const Error& reason) noexcept {
  if (!over_) leave(endpoint_->ring().from_receiver, reason);
}

}  // namespace tutti::transport
