#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "transport/frame.h"
#include "transport/slot_ring.h"
#include "tutti/error.h"

namespace tutti::transport {

/// Rounds that may be under way at once: a rank begins round n when all have begun round n - board_depth + 1. Many, so
/// that a root whose broadcasts nobody answers seldom looks whether they have been read.
inline constexpr std::uint64_t board_depth = 64;
/// So much of it lies beside the flag, the first half in the same cache line.
inline constexpr std::size_t post_bytes = 96;

/// Memory that all ranks of a group see, where each puts what it contributes to a round, and reads what the others put
/// there: one trip of a cache line, and nobody answers.
///
///   round n   everybody writes its post n % depth, the flag last, and waits for the posts that it needs
///   reuse     a post, and the room for what does not fit into it, may be written again once all ranks have begun a
///             later round: whoever has begun round m has read all it needs of the rounds before
///
/// Every word has one writer, but for the alarms, which their owner sets and others take down, and the number of
/// sleepers. Believes nothing that it reads: a wrong flag keeps its reader waiting, the lengths are the reader's own.
///
/// Ownership: keeps the memory alive. Threading: one thread at a time on each rank.
class Board {
 public:
  /// For more, each rank's part of what one rank has room for would be less than a few cache lines.
  static constexpr int most_ranks = 128;
  /// What one rank can put there for one round.
  static std::size_t capacity(int ranks);
  /// What one rank can put there so that as many rounds may be under way as with posts; 0: no more than into a post.
  /// Of more than two ranks some may share a core, and the longer a root runs ahead of its readers the fewer times is
  /// it switched (8 ranks on 2 cores, broadcast of 1 KiB: 4.5 us with 4 rounds, 1.9 with 64). Two ranks gain nothing,
  /// and write lines that the reader's caches still have (all_reduce of 1 KiB: 0.31 us with 16, 0.37 with 64).
  static std::size_t shelf(int ranks);
  /// Rounds that may be under way at once where more is contributed than fits onto a shelf: all ranks' room for that
  /// takes 4 MiB. Where few ranks leave much for each, room is written again when its readers' caches have it no more:
  /// to write a line that they still have is a trip to their core.
  static std::uint64_t room_depth(int ranks);
  static std::size_t bytes_for(int ranks);
  /// `memory`: bytes_for(ranks) bytes of zeros when the first rank comes, in pages of 4 KiB.
  Board(std::shared_ptr<std::byte> memory, int ranks, int rank);

  /// The number of the round that this rank has begun last, from 1; 0: none.
  std::uint64_t round() const { return round_; }
  /// Nobody needs any more what lies where the next round's `size` bytes and their post will.
  bool may_begin(std::size_t size) noexcept { return all_begun_ + depth(size) > round_ + 1 || all_have_read(size); }
  /// Where the `size` bytes that this rank contributes to the next round are to be put. Only when it may begin.
  std::byte* room(std::size_t size) const noexcept;
  /// Begins the next round. Only when it may. `call` is what this rank does in it, and is posted with `length` instead
  /// of its own; `before` is what it did before, and `digest` a number for all of that.
  void begin(std::uint64_t digest, const FrameWords& call, std::uint64_t length, const FrameWords& before) noexcept;
  /// Fetches the cache lines that the next round will write, if it is like this one of `size` bytes: its readers still
  /// have them, and by then they would be waited for (two ranks back to back, all_reduce of 4 B and of 256 B: 144 ->
  /// 129 and 189 -> 164 ns). For while the others are waited for.
  void fetch_next(std::size_t size) const noexcept;
  /// `rank` has begun this rank's round: until the next one the rest is there to be read.
  bool is_here(int rank) const noexcept { return post(rank, round_).round.load(std::memory_order_acquire) == round_; }
  std::uint64_t digest(int rank) const noexcept { return post(rank, round_).digest; }
  /// What `rank` did in a round of late, this one included, or before it; nothing if that is not there any more.
  std::optional<Frame> call(int rank, std::uint64_t round, bool before = false) const noexcept;
  /// `size` bytes, as many as the rank has put there if it makes the same call.
  std::span<const std::byte> contribution(int rank, std::size_t size) const noexcept;

  // ---- Sleeping: raise the alarm, look once more, sleep; whoever has begun a round, and looks for alarms, sees it
  void arm() noexcept;
  void disarm() noexcept;
  /// Calls `wake` with each other rank that sleeps. Apart from begin(), since it costs less when the round has had time
  /// to leave this core.
  template <class Wake>
  void wake_sleepers(Wake&& wake) noexcept {
    before_alarms();
    if (nobody_sleeps()) return;
    for (int rank = 0; rank < ranks_; ++rank)
      if (rank != rank_ && takes_down_alarm(rank)) wake(rank);
  }
  /// No alarm is raised but by who died in its sleep: there is nothing to take down.
  bool nobody_sleeps() const noexcept { return sleepers_->load(std::memory_order_seq_cst) == 0; }
  /// Somebody else sleeps, and is to be woken by this rank.
  bool takes_down_alarm(int rank) noexcept {
    auto& alarm = note(rank).alarm;
    return alarm.load(std::memory_order_seq_cst) != 0 && alarm.exchange(0) != 0;
  }

  // ---- The end
  /// From now on nobody sees what this rank does, nor does it hear of the others' end, as if it were out of reach: for
  /// fault injection.
  void cut() noexcept { is_cut_ = true; }
  void say_abort(const Error& reason) noexcept { leave(note(rank_).farewell, reason); }
  /// Why `rank` has aborted; nothing if it has not.
  std::optional<Error> last_words(int rank) const noexcept;

 private:
  /// A frame. Read while its writer may be at another one: `round` tells the reader.
  using Words = std::array<std::atomic<std::uint64_t>, frame_size / 8>;
  struct alignas(128) Post {
    std::atomic<std::uint64_t> round{0};  ///< written last; with `is_written` in it: not yet
    std::uint64_t digest;
    std::array<std::byte, post_bytes> contribution;
    Words call;
    Words before;
  };  // three cache lines; a reader of a short contribution, whose caller did what it does, needs the first only
  struct alignas(128) Note {
    std::atomic<std::uint32_t> alarm{0};
    Farewell farewell;
  };
  static_assert(sizeof(Post) == 256 && offsetof(Post, call) % 8 == 0);

  static constexpr std::uint64_t is_written = std::uint64_t{1} << 63;

  static std::size_t heads(int ranks);
  std::uint64_t depth(std::size_t size) const noexcept {
    return size > std::max(post_bytes, shelf_) ? room_depth_ : board_depth;
  }
  bool all_have_read(std::size_t size) noexcept;
  void before_alarms() noexcept;
  Post& post(int rank, std::uint64_t round) const noexcept {
    return posts_[(round % board_depth) * static_cast<std::size_t>(ranks_) + static_cast<std::size_t>(rank)];
  }
  Note& note(int rank) const noexcept { return notes_[static_cast<std::size_t>(rank)]; }
  std::byte* place(int rank, std::uint64_t round, std::size_t size) const noexcept;

  std::shared_ptr<std::byte> memory_;
  int ranks_;
  int rank_;
  Post* posts_;
  Note* notes_;
  std::atomic<std::uint32_t>* sleepers_;  ///< how many have raised their alarms, on a cache line of its own
  std::byte* shelves_;
  std::byte* large_;
  std::size_t shelf_;
  std::size_t capacity_;
  std::uint64_t room_depth_;
  std::uint64_t round_ = 0;
  std::uint64_t all_begun_ = 0;  ///< rounds that all ranks have begun, as last seen
  bool is_armed_ = false;
  bool is_cut_ = false;
};

}  // namespace tutti::transport
