// A ring of slots between one sender and one receiver, in memory that both map.
//
//   sender    fills slot n % slot_count, then stores n + 1 and the area's name in its flag
//   receiver  sees the flag it waits for, takes the payload, names the area that it returns, then
//             stores n + 1 in `freed`
//   sender    may fill slot n + slots_in_flight() once `freed` is above n
//
// A short message costs one transfer of a few neighbouring cache lines: flag, frame and payload are side by side.
//
// A long message may use single copy: its slot has the address in the sender's memory, and is free when the receiver
// has read the data there.
//
// Sleeping: a side that wants to sleep raises its alarm and then looks at the ring, twice (transport/sleep.h); a side
// that changes the ring then looks at the alarm. If several could wake the sleeper, the one that clears the alarm does.

#include "transport/memory/slot_ring.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "lib/base/fetch_to_write.h"
#include "transport/hello.h"

namespace tutti::transport {

// ---- Sender ----------------------------------------------------------------------------------------------------

void RingWriter::look_at_freed() noexcept {
  const std::uint64_t freed = memory_->freed.load(std::memory_order_acquire);
  // A peer that writes nonsense can only keep the ring full.
  if (freed - freed_ > filled_ - freed_) return;
  for (; freed_ != freed; ++freed_) {
    const std::size_t slot = freed_ % slot_count;
    if (areas_filled_[slot] != AreaName::none)
      areas_->put_back(seen_from_other(memory_->returned[slot]), areas_filled_[slot]);
  }
  if (freed_ > 0) areas_->peer_has_own();
}

/// Writes the frame of a message.
void RingWriter::describe(const FrameWords& frame) noexcept {
  SlotHead& head = next();
  const auto [kinds, number, algorithm, count, length, history] = frame;
  head.words = {kinds, number, algorithm, count, length};
  head.history = static_cast<std::uint32_t>(history);
}

/// The frame is written just before the flag: a receiver that waits looks at their cache line all the time, so it would
/// have to be fetched once more.
bool RingWriter::begin(const FrameWords& frame, std::span<const std::byte> piece) noexcept {
  AreaName area = AreaName::none;
  if (const std::uint64_t length = length_of(frame); length > short_bytes) {
    timed_ = CopyChoice::is_timed_by_sender(wishes_about(length), length)
                 ? timed_pieces(length, areas_->of_own(), shares_cores_)
                 : TimedPieces{};
    length_ = length;
    area = fill_area(piece);
  } else if (!piece.empty()) {
    std::memcpy(next().payload.data(), piece.data(), piece.size());
  }
  describe(frame);
  const bool must_wake = publish(area);
  fetch_next(area == AreaName::none ? piece.size() : sizeof(LongPayload));
  return must_wake;
}

/// Asks for the cache lines that the next message will write if it has as much in its slot: the receiver has them
/// (sendrecv of 4 B by two far cores of a Zen 4: 0.44 us without, 0.33 with).
void RingWriter::fetch_next(std::size_t payload) noexcept {
  fetch_to_write(&next(), offsetof(SlotHead, payload) + payload);
}

bool RingWriter::begin_single_copy(const FrameWords& frame, std::span<const std::byte> payload) noexcept {
  describe(frame);
  note({.single_copy_address = reinterpret_cast<std::uintptr_t>(payload.data()), .filling_ns = 0});
  return publish(areas_->take(length_of(frame)));
}

bool RingWriter::wants_single_copy(std::uint64_t length) const noexcept {
  return CopyChoice::wants_single_copy(wishes_about(length), length);
}

bool RingWriter::has_freed(std::uint64_t fillings) noexcept {
  if (freed_ < fillings) look_at_freed();
  return freed_ >= fillings;
}

bool RingWriter::proceed(std::span<const std::byte> piece) noexcept { return publish(fill_area(piece)); }

AreaName RingWriter::fill_area(std::span<const std::byte> piece) noexcept {
  const AreaName area = areas_->take(length_);
  const bool is_first_use = areas_->is_first_use(area, piece.size());
  const bool is_timed = timed_.next() && !is_first_use;
  // Where cores are shared, the first copies mostly wait for those, which would look like slow stores.
  if (is_timed && !shares_cores_) path_.may_begin_to_time();
  const auto copy = [&] { path_.copy(areas_->at(area), piece.data(), piece.size(), is_first_use); };
  std::chrono::nanoseconds taken{};
  if (is_timed)
    taken = clocks_.time_of(shares_cores_, copy);
  else
    copy();
  note({.single_copy_address = 0, .filling_ns = static_cast<std::uint32_t>(taken.count())});
  return area;
}

bool RingWriter::publish(AreaName area) noexcept {
  SlotHead& head = next();
  areas_filled_[filled_ % slot_count] = area;
  const std::uint32_t flag = flag_of(++filled_, area);
  head.filling.store(flag, std::memory_order_release);
  std::atomic_signal_fence(std::memory_order_seq_cst);  // the compiler must not look at the alarm first
  auto& alarm = memory_->receiver_alarm;
  return alarm.load(std::memory_order_relaxed) != 0 && alarm.exchange(0) != 0;
}

bool RingWriter::arm(std::size_t slots, std::uint64_t held_until) noexcept {
  std::uint64_t target = held_until;
  // slots <= slots_, and a side that waits has found fewer free slots than that.
  if (slots > 0) target = filled_ + slots - slots_;
  if (slots > 0 && held_until > 0) target = std::min(target, held_until);
  memory_->sender_alarm.store(target);
  return memory_->freed.load() < target;
}

// ---- Receiver --------------------------------------------------------------------------------------------------

std::optional<Frame> RingReader::frame() const noexcept {
  const auto [kinds, number, algorithm, count, length] = head().words;
  return decode(FrameWords{kinds, number, algorithm, count, length, head().history});
}

bool RingReader::begins_with(const FrameWords& frame) const noexcept {
  const auto& words = head().words;
  std::uint64_t differences = head().history ^ frame.back();
  for (std::size_t i = 0; i < words.size(); ++i) differences |= words[i] ^ frame[i];
  return differences == 0;
}

std::span<const std::byte> RingReader::piece(std::uint64_t length, std::uint64_t rest) const noexcept {
  if (length <= short_bytes) return {head().payload.data(), static_cast<std::size_t>(rest)};
  // A peer whose ring has larger areas than this rank's may name one of this rank's.
  return {areas_->at(area()), std::min(piece_bytes(length, rest, areas_->of_theirs()), areas_->bytes_of_each())};
}

std::uint64_t RingReader::single_copy_address(std::uint64_t length) const noexcept {
  return length > short_bytes ? long_payload().single_copy_address : 0;
}

std::chrono::nanoseconds RingReader::filling_time() const noexcept {
  return std::chrono::nanoseconds{long_payload().filling_ns};
}

bool RingReader::is_first_use(std::uint64_t length, std::size_t bytes) noexcept {
  return length > short_bytes && areas_->is_first_use(area(), bytes);
}

std::span<std::byte> RingReader::scratch() const noexcept { return {areas_->at(area()), areas_->bytes_of_each()}; }

std::size_t RingReader::ready_slots() const noexcept {
  std::size_t ready = 0;
  const auto is_filled = [&](std::uint64_t slot) {
    return is_flag_of(memory_->head_of(slot).filling.load(std::memory_order_relaxed), slot + 1);
  };
  while (ready < slot_count && is_filled(taken_ + ready)) ++ready;
  return ready;
}

void RingReader::give_back() noexcept {
  if (const AreaName read = area(); read != AreaName::none)
    memory_->returned[taken_ % slot_count] = areas_->exchange(read);
  ++taken_;
}

bool RingReader::release() noexcept {
  give_back();
  return sender_sleeps();
}

void RingReader::go_on() noexcept {
  give_back();
  memory_->freed.store(taken_, std::memory_order_release);
}

bool RingReader::sender_sleeps() noexcept {
  memory_->freed.store(taken_, std::memory_order_release);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  auto& alarm = memory_->sender_alarm;
  const std::uint64_t target = alarm.load(std::memory_order_relaxed);
  return target != 0 && taken_ >= target && alarm.exchange(0) != 0;
}

bool RingReader::arm() noexcept {
  memory_->receiver_alarm.store(1);
  return !is_flag_of(head().filling.load(), taken_ + 1);
}

// ---- Last words ------------------------------------------------------------------------------------------------

void leave(CloseRecord& close_record) noexcept {
  close_record.departure.store(Departure::closed, std::memory_order_release);
}

void leave(CloseRecord& close_record, const Error& reason) noexcept {
  const std::string_view text = reason_text(reason).substr(0, abort_text_bytes);
  Frame frame = abort_frame(reason);
  frame.length = text.size();
  close_record.frame = words_of(frame);
  std::memcpy(close_record.text.data(), text.data(), text.size());
  close_record.departure.store(Departure::aborted, std::memory_order_release);
  // Single-copy memory is overwritten after this store. A receiver that reads it checks `departure` afterwards.
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

std::optional<Error> abort_reason(const CloseRecord& close_record) {
  const FrameWords words = close_record.frame;
  const std::optional<Frame> frame = decode(words);
  if (!frame || frame->kind != FrameKind::abort || frame->length > abort_text_bytes) return std::nullopt;
  return told_by(*frame, std::span(close_record.text).first(frame->length));
}

}  // namespace tutti::transport
