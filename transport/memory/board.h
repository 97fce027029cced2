#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "transport/frame.h"
#include "transport/memory/board_areas.h"
#include "transport/memory/slot_ring.h"
#include "tutti/error.h"

namespace tutti::transport {

/// What a board has beside its posts. Many groups never need it.
enum class BoardPart : std::uint8_t { posts_only, areas, slots };

/// Memory that all ranks of a group map. In each round a rank writes its contribution there and reads those of the
/// others, which takes one transfer of a cache line and no acknowledgement.
///
/// Contributions that are too large for a post lie in areas or rings (AreaLayout). These are a hundred times as large
/// as the posts and are a separate mapping, made by the first call that needs it; many groups never make one.
///
///   round n   every rank writes its post n % depth, the flag last, and waits for the posts that it needs
///   reuse     a post, and what belongs to it elsewhere, may be written again once all ranks have begun a later round:
///             a rank that has begun round m has read all that it needs of earlier rounds
///
/// Every word of posts has one writer, with two exceptions: alarms, which their owner sets and other ranks clear, and
/// the number of sleepers. Two ranks exchange their areas each time round, when both have begun a later round. Nothing
/// that is read is trusted: a wrong flag only keeps its reader waiting, a wrong place is another one in the same
/// memory, and lengths are the reader's own.
///
/// Ownership: keeps the memory alive. Threading: one thread at a time on each rank.
class Board {
 public:
  /// With more ranks, each rank's part of an area would be less than a few cache lines.
  static constexpr int most_ranks = 128;
  /// Bytes that one rank can contribute to a round.
  static std::size_t capacity(int ranks) { return AreaLayout::of(ranks).capacity; }
  /// Sums that pass from rank to rank lie in slots, which all ranks use in turn: round n uses slot n % row_slots. They
  /// take 2 MiB, so that they stay in the caches.
  static constexpr std::size_t row_slot_bytes = std::size_t{64} * 1024;
  static constexpr std::uint64_t row_slots = 32;
  static constexpr std::size_t bytes_of_slots = row_slots * row_slot_bytes;
  /// Without areas.
  static std::size_t bytes_for(int ranks);
  /// `memory`: bytes_for(ranks) bytes in pages of 4 KiB, zeros when the first rank attaches.
  Board(std::shared_ptr<std::byte> memory, int ranks, int rank);
  static MemoryNeed need_of_areas(int ranks) {
    const AreaLayout layout = AreaLayout::of(ranks);
    return {.bytes = layout.bytes, .reserved = layout.lone_rings};
  }
  static MemoryNeed need_of_slots() { return {.bytes = bytes_of_slots, .reserved = bytes_of_slots}; }
  /// `memory`: need_of_areas(ranks), of any content. All ranks add it before the first round in which one of them
  /// contributes more than `post_bytes`.
  void add_areas(std::shared_ptr<std::byte> memory) noexcept;
  /// The same with need_of_slots(), before the first round in which a sum passes.
  void add_slots(std::shared_ptr<std::byte> memory) noexcept { slots_ = std::move(memory); }
  bool has(BoardPart part) const noexcept {
    if (part == BoardPart::posts_only) return true;
    return (part == BoardPart::areas ? areas_ : slots_) != nullptr;
  }

  /// The number of the last round that this rank has begun, from 1; 0: none.
  std::uint64_t round() const { return round_; }
  /// All ranks have finished reading the memory that the next rounds' `size` bytes each and their posts will overwrite.
  /// `rounds`: fewer than may be in progress at once.
  bool may_begin(std::size_t size, Flow flow, std::uint64_t rounds = 1) noexcept {
    if (flow == Flow::from_one && ring_.has_gone_round() && lone_ring_use_ == LoneRingUse::untried) try_lone_ring();
    return is_known_to_be_free(size, flow, rounds) || has_become_free(size, flow, rounds);
  }
  /// Some of these rounds may be shorter than the longest.
  bool may_begin(const Reservation& all) noexcept {
    return std::ranges::all_of(all.parts(), [&](const Reservation::Part& part) {
      return may_begin(part.size, part.flow, all.rounds()) &&
             (all.rounds() == 1 || part.size <= AreaLayout::most_in_area ||
              may_begin(AreaLayout::most_in_area, part.flow, all.rounds()));
    });
  }
  /// The same for the slot of the next round.
  bool may_use_slot() noexcept {
    const std::uint64_t next = round_ + 1;
    if (next <= row_slots) return true;
    const std::uint64_t last_use = next - row_slots;
    const std::uint64_t needed = last_use + 1 + (last_use <= late_round_ ? late_ : 0);
    return all_begun_ >= needed || all_have_begun(needed);
  }
  /// That slot. Ranks read it before they have begun more than `late` rounds after that one. Only the first rank that
  /// uses a slot must know that it may; the others come after it.
  std::byte* next_slot(std::uint64_t late) noexcept {
    if (late > 0) late_round_ = round_ + 1;
    late_ = std::max(late_, late);
    return slot(round_ + 1);
  }
  /// That of the round `ago` rounds before the one that this rank has begun last.
  const std::byte* slot_before(std::uint64_t ago) const noexcept { return slot(round_ - ago); }
  /// Where the `size` bytes that this rank contributes to the next round are to be written. Only if may_begin().
  std::byte* room(std::size_t size, Flow flow) noexcept {
    Post& next = posts_next_[rank_];
    if (size <= post_bytes) return next.contribution.data();
    std::byte* const room = next_room(size, flow);
    if (!layout_.areas_for(size, flow)) ring_for(flow).take(size);
    if (layout_.known_areas_for(size, flow)) return room;
    const auto place = static_cast<std::size_t>(room - areas_.get());
    std::memcpy(next.contribution.data(), &place, sizeof place);
    return room;
  }
  /// Begins the next round. Only if may_begin(). `call` is this rank's call in it, and `history` a hash of all its
  /// calls up to this one. All its calls before number `oldest_running` have ended. `before` is its previous call, or
  /// null if its previous post shows that.
  void begin(std::uint64_t history, const CallWords& call, std::uint32_t oldest_running,
             const CallWords* before) noexcept {
    ++round_;
    posts_now_ = std::exchange(posts_next_, posts(round_ + 1));
    ring_.begin(round_);
    lone_ring_.begin(round_);
    if (!is_cut_) [[likely]]
      write(posts_now_[rank_], history, call, oldest_running, before);
  }
  /// Tells the others on which core this rank is, from 0; -1: it is not known.
  void say_core(int core) noexcept {
    core_ = core + 1;
    auto& said = note(rank_).core;
    if (said.load(std::memory_order_relaxed) != core_) said.store(core_, std::memory_order_relaxed);
  }
  /// `rank` was on this rank's core when both last said so, as far as is known.
  bool shares_core_with(int rank) const noexcept {
    const int core = note(rank).core.load(std::memory_order_relaxed);
    return core == 0 || core_ == 0 || core == core_;
  }
  /// One of them has not begun this rank's round, and shares its core.
  bool awaits_own_core(std::span<const int> ranks) const noexcept {
    return std::ranges::any_of(ranks, [&](int rank) { return shares_core_with(rank) && !is_here(rank); });
  }
  /// Prefetches the cache lines that the next round will write if it contributes `size` bytes, unless a rank may still
  /// read there. The readers hold these lines, so the write would otherwise wait for them (two ranks back to back,
  /// all_reduce of 4 B and of 256 B: 144 -> 129 and 189 -> 164 ns).
  void fetch_next(std::size_t size, Flow flow) const noexcept;
  /// `rank` has begun this rank's round. Its contribution can be read until this rank begins the next round.
  bool is_here(int rank) const noexcept { return posts_now_[rank].round.load(std::memory_order_acquire) == round_; }
  /// `rank` has begun the round `ago` rounds before this rank's.
  bool has_begun(int rank, std::uint64_t ago) const noexcept { return has_reached(rank, round_ - ago); }
  /// `rank` has begun the round after this rank's, and this one not more than a few rounds before.
  bool is_in_next(int rank) const noexcept {
    return posts_next_[rank].round.load(std::memory_order_acquire) == round_ + 1;
  }
  /// The latest round that `rank` has begun, if that is about as far as this rank.
  std::uint64_t latest_of(int rank) const noexcept;
  std::uint64_t history(int rank) const noexcept { return posts_now_[rank].history; }
  /// `rank` has begun the round after this rank's, with a history other than `history`.
  bool differs_in_next(int rank, std::uint64_t history) const noexcept {
    return is_in_next(rank) && posts_next_[rank].history != history;
  }
  /// The call of `rank` in a recent round, this one included; nothing if it has been overwritten. `before`: an earlier
  /// call, namely the one before it if no other post shows that.
  std::optional<Frame> call(int rank, std::uint64_t round, bool before = false) const noexcept;
  /// All calls of `rank` before that number had ended when it began that round; nothing if its post has been
  /// overwritten.
  std::optional<std::uint32_t> oldest_running(int rank, std::uint64_t round) const noexcept;
  /// `size` bytes, which is the length that the rank has written if it makes the same call. `flow` is this rank's, and
  /// if there are two ranks, also the other's.
  std::span<const std::byte> contribution(int rank, std::size_t size, Flow flow) const noexcept {
    const std::byte* const posted = posts_now_[rank].contribution.data();
    return {size <= post_bytes ? posted : where(rank, posted, size, flow), size};
  }

  // ---- Sleeping, as transport/sleep.h says. A rank that begins a round looks for alarms afterwards
  void arm() noexcept;
  void disarm() noexcept;
  /// Calls `wake` with each other rank that sleeps and that this rank's last round may concern.
  template <class Concerns, class Wake>
  void wake_sleepers(Concerns&& concerns, Wake&& wake) noexcept {
    if (!somebody_sleeps()) return;
    for (int rank = 0; rank < ranks_; ++rank)
      if (rank != rank_ && concerns(rank) && takes_down_alarm(rank)) wake(rank);
  }
  /// Whether another rank may sleep that has not seen this rank's last round.
  bool somebody_sleeps() const noexcept {
    std::atomic_signal_fence(std::memory_order_seq_cst);  // the compiler must not look before the round has begun
    return !nobody_sleeps();
  }
  /// No alarm needs clearing. One that is up may only be that of a rank that died asleep.
  bool nobody_sleeps() const noexcept { return sleepers_->load(std::memory_order_relaxed) == 0; }
  /// Another rank sleeps, and this rank is to wake it.
  bool takes_down_alarm(int rank) noexcept {
    auto& alarm = note(rank).alarm;
    return alarm.load(std::memory_order_relaxed) != 0 && alarm.exchange(0) != 0;
  }

  // ---- The end
  /// Fault injection: from now on no other rank sees what this rank does, and this rank does not see the others end.
  void cut() noexcept { is_cut_ = true; }
  void say_abort(const Error& reason) noexcept { leave(note(rank_).close_record, reason); }
  /// The reason for which `rank` has aborted; nothing if it has not.
  std::optional<Error> abort_reason(int rank) const noexcept;

 private:
  /// They may be read while their owner writes the next call; `round` shows that to the reader.
  using Words = std::array<std::atomic<std::uint64_t>, std::tuple_size_v<CallWords>>;
  struct alignas(128) Post {
    std::atomic<std::uint64_t> round{0};  ///< written last; with `is_written` set, the post is still being written
    std::uint64_t history;
    std::array<std::byte, post_bytes> contribution;
    Words call;
    std::atomic<std::uint32_t> oldest_running;
    alignas(64) Words before;  ///< rarely written
  };  // A reader that makes the same call as the writer needs only the first of its cache lines.
  struct alignas(128) Note {
    std::atomic<std::uint32_t> alarm{0};
    std::atomic<int> core{0};  ///< on which the rank last was, from 1; 0: not known
    CloseRecord close_record;
  };
  static_assert(sizeof(Post) == 256 && offsetof(Post, call) == 64 && offsetof(Post, before) == 128);

  /// Whether the ring for rounds to which this rank alone contributes is in use, or there was no memory for it.
  enum class LoneRingUse : std::uint8_t { untried, in_use, no_memory };

  /// Consecutive rounds are that far apart, and so in different pages. If they lay side by side, the cores of readers
  /// would fetch the next posts, too, and take them away from the ranks that are about to write them (2 far cores of a
  /// Zen 4, broadcast of 4 B: 0.33 us side by side, 0.20 so; back to back 0.38 and 0.21).
  static constexpr std::uint64_t posts_apart = 37;
  static constexpr std::uint64_t is_written = std::uint64_t{1} << 63;

  bool is_known_to_be_free(std::size_t size, Flow flow, std::uint64_t rounds) const noexcept {
    if (size <= post_bytes) return all_begun_ + board_depth > round_ + rounds;
    if (const AreaSet* const areas = layout_.areas_for(size, flow)) return all_begun_ + areas->depth > round_ + rounds;
    return all_begun_ + board_depth > round_ + rounds && ring_for(flow).has_room(size, rounds);
  }
  bool has_become_free(std::size_t size, Flow flow, std::uint64_t rounds) noexcept;
  bool all_have_begun(std::uint64_t needed) noexcept;
  /// `rank` has begun that round, or any later one whose post lies in the same place.
  bool has_reached(int rank, std::uint64_t round) const noexcept {
    return post(rank, round).round.load(std::memory_order_acquire) >= round;
  }
  std::byte* slot(std::uint64_t round) const noexcept { return slots_.get() + round % row_slots * row_slot_bytes; }
  template <class Look>
  auto find(int rank, std::uint64_t round, const Look& look) const noexcept;
  Post* posts(std::uint64_t round) const noexcept {
    return posts_ + round * posts_apart % board_depth * static_cast<std::size_t>(ranks_);
  }
  Post& post(int rank, std::uint64_t round) const noexcept { return posts(round)[rank]; }
  Note& note(int rank) const noexcept { return notes_[static_cast<std::size_t>(rank)]; }
  void write(Post& post, std::uint64_t history, const CallWords& call, std::uint32_t oldest_running,
             const CallWords* before) const noexcept {
    post.round.store(round_ | is_written, std::memory_order_release);  // says also that earlier rounds have been read
    std::atomic_thread_fence(std::memory_order_release);
    post.history = history;
    for (std::size_t i = 0; i < call.size(); ++i) post.call[i].store(call[i], std::memory_order_relaxed);
    if (before) [[unlikely]]
      for (std::size_t i = 0; i < before->size(); ++i) post.before[i].store((*before)[i], std::memory_order_relaxed);
    post.oldest_running.store(oldest_running, std::memory_order_relaxed);
    post.round.store(round_, std::memory_order_release);
  }
  void try_lone_ring() noexcept;
  bool uses_lone_ring(Flow flow) const noexcept {
    return flow == Flow::from_one && lone_ring_use_ == LoneRingUse::in_use;
  }
  const ContributionRing& ring_for(Flow flow) const noexcept { return uses_lone_ring(flow) ? lone_ring_ : ring_; }
  ContributionRing& ring_for(Flow flow) noexcept { return uses_lone_ring(flow) ? lone_ring_ : ring_; }
  std::byte* next_room(std::size_t size, Flow flow) const noexcept;
  std::byte* area(int rank, std::uint64_t round, const AreaSet& areas) const noexcept;
  const std::byte* where(int rank, const std::byte* posted, std::size_t size, Flow flow) const noexcept;

  std::shared_ptr<std::byte> memory_;
  std::shared_ptr<std::byte> areas_;  ///< null: not added yet
  std::shared_ptr<std::byte> slots_;  ///< the same
  int ranks_;
  int rank_;
  Post* posts_;
  Post* posts_now_;   ///< of this rank's round
  Post* posts_next_;  ///< and of the one after that
  Note* notes_;
  std::atomic<std::uint32_t>* sleepers_;  ///< number of raised alarms, on a cache line of its own
  AreaLayout layout_;                     ///< without room, until areas are added
  ContributionRing ring_, lone_ring_;     ///< this rank's; the same
  LoneRingUse lone_ring_use_ = LoneRingUse::untried;
  std::uint64_t round_ = 0;
  std::uint64_t late_round_ = 0;  ///< the last round whose slot is read late,
  std::uint64_t late_ = 0;        ///< namely up to that many rounds
  std::uint64_t all_begun_ = 0;   ///< rounds that all ranks have begun, last value seen
  int core_ = 0;                  ///< in this rank's note, last value written
  bool is_armed_ = false;
  bool is_cut_ = false;
};

}  // namespace tutti::transport
