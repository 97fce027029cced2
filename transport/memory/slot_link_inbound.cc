// The receiving end of a link made of slots.
//
// It is shown each message where it lies, in its slots or in the sender's memory; a parked one stays there. What the
// sender left behind when it went counts once all before it was taken; only an abort does not wait.

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <cstring>

#include "lib/base/system_error_text.h"
#include "transport/memory/slot_link.h"

namespace tutti::transport {
namespace {

/// So much of a lent message is read in one pass over all links, that others get their turn. The kernel looks up pages
/// in each (sendrecv of 16 MiB between 2 ranks: 2,200 us with 256 KiB, 2,000 with 1 MiB, 1,930 with 2 MiB).
constexpr std::size_t lent_bytes = std::size_t{1} << 20;

}  // namespace

InboundSlotLink::InboundSlotLink(int peer, Channel channel, std::unique_ptr<RingEndpoint> endpoint,
                                 const CopyPolicy& copy_policy)
    : Link(peer, channel),
      endpoint_(std::move(endpoint)),
      reader_(endpoint_->ring(), endpoint_->areas()),
      choice_(copy_policy.single_copy, copy_policy.cores_are_shared) {}

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
      continue;
    }
    const std::size_t bytes = take_lent(sink);
    if (bytes == 0) break;
    slots += (bytes - 1) / slot_bytes;
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
  if (lent_ && !can_read_) {
    fail(sink,
         Error(ErrorCode::mismatch,
               fmt::format("rank {} lends what nobody has asked for; all ranks must run the same version of tutti",
                           peer()),
               peer()));
    return false;
  }
  if (!may_be_lent(frame_) || !choice_.may_lend()) return true;
  if (!can_read_) try_to_read();
  slots_before_ = lent_ ? 0 : reader_.ready_slots();
  began_ = Clock::now();
  return true;
}

/// Nothing is lent before it is known that it can be read.
void InboundSlotLink::try_to_read() noexcept {
  const Sample sample = endpoint_->ring().sample;
  std::uint64_t found = 0;
  can_read_ =
      endpoint_->read_peer(std::as_writable_bytes(std::span{&found, 1}), sample.address) && found == sample.value;
  if (!can_read_) {
    choice_.give_up();
    endpoint_->say_unreadable(errno);
  }
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

/// The next piece of a message in the sender's memory. 0: the link has failed; else how long it was.
std::size_t InboundSlotLink::take_lent(Sink& sink) noexcept {
  const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(rest_, destination_ ? lent_bytes : slot_bytes));
  const auto piece = destination_ ? std::span{destination_, size} : reader_.scratch(frame_.length).first(size);
  const int error = endpoint_->read_peer(piece, lent_from_) ? 0 : errno;
  // Who aborts has its memory back at once, and may have written there or given it away.
  std::atomic_thread_fence(std::memory_order_acquire);
  if (error != 0 || parting() != Parting::none) {
    stop_reading(sink, error);
    return 0;
  }
  if (destination_) {
    destination_ += piece.size();
  } else {
    sink.view(*this, piece);
  }
  lent_from_ += piece.size();
  rest_ -= piece.size();
  if (rest_ == 0) finish(sink);
  return size;
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

/// The sender has left, or its memory is not there any more.
void InboundSlotLink::stop_reading(Sink& sink, int error) noexcept {
  if (parting() != Parting::none || error == ESRCH) return conclude(sink);
  fail(sink,
       Error(ErrorCode::peer_lost,
             fmt::format("cannot read what rank {} sends out of its memory: {}. It must stay there until the call "
                         "has ended; if it does, TUTTI_SINGLE_COPY=off does without reading",
                         peer(), refusal(error)),
             peer()));
}

void InboundSlotLink::release() noexcept {
  if (reader_.release()) endpoint_->wake_peer();
}

void InboundSlotLink::attend() noexcept {
  if (!over_ && !departed_) departed_ = endpoint_->peer_left();
}

Parting InboundSlotLink::parting() const noexcept {
  return endpoint_->ring().from_sender.parting.load(std::memory_order_acquire);
}

/// The peer has left and all it sent has been delivered, as far as it may be.
void InboundSlotLink::conclude(Sink& sink) noexcept {
  if (const auto words = parting() == Parting::aborted ? last_words(endpoint_->ring().from_sender) : std::nullopt)
    return fail(sink, *words);
  if (inside_ || parting() != Parting::closed) {
    const auto how_far =
        inside_ ? fmt::format("when {} of {} bytes of a message had arrived", frame_.length - rest_, frame_.length)
                : std::string("between two messages");
    return fail(sink, lost(peer(), how_far));
  }
  over_ = true;
  endpoint_.reset();
}

void InboundSlotLink::fail(Sink& sink, const Error& reason) noexcept {
  over_ = true;
  endpoint_.reset();
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
    endpoint_.reset();
  }
  return moved;
}

void InboundSlotLink::cut() noexcept {
  if (!over_) endpoint_->cut();
}

void InboundSlotLink::say_goodbye() noexcept {
  if (!over_) leave(endpoint_->ring().from_receiver);
}

void InboundSlotLink::say_abort(const Error& reason) noexcept {
  if (!over_) leave(endpoint_->ring().from_receiver, reason);
}

}  // namespace tutti::transport
