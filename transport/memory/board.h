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
#include "transport/memory/slot_ring.h"
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
/// What is too large for a post has its place in rooms. They are a hundred times as large as the rest and are memory of
/// their own, which comes with the first call that needs it: many groups never make one.
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
  /// Without rooms.
  static std::size_t bytes_for(int ranks);
  static std::size_t bytes_of_rooms(int ranks);
  /// `memory`: bytes_for(ranks) bytes of zeros when the first rank comes, in pages of 4 KiB.
  Board(std::shared_ptr<std::byte> memory, int ranks, int rank);
  /// `memory`: bytes_of_rooms(ranks) bytes, whatever is in them. All ranks add them before the first round in which one
  /// of them contributes more than `post_bytes`.
  void add_rooms(std::shared_ptr<std::byte> memory) noexcept;
  bool has_rooms() const noexcept { return rooms_ != nullptr; }

  /// The number of the round that this rank has begun last, from 1; 0: none.
  std::uint64_t round() const { return round_; }
  /// Nobody needs any more what lies where the next round's `size` bytes and their post will.
  bool may_begin(std::size_t size) noexcept { return all_begun_ + depth(size) > round_ + 1 || all_have_read(size); }
  /// Where the `size` bytes that this rank contributes to the next round are to be put. Only when it may begin.
  std::byte* room(std::size_t size) const noexcept;
  /// Begins the next round. Only when it may. `call` is what this rank does in it, `before` what it did before, and
  /// `history` a hash of all its calls up to this one. All its calls before the one numbered `oldest_running` have
  /// ended.
  void begin(std::uint64_t history, const FrameWords& call, std::uint32_t oldest_running,
             const FrameWords& before) noexcept;
  /// Fetches the cache lines that the next round will write, if it is like this one of `size` bytes: its readers still
  /// have them, and by then they would be waited for (two ranks back to back, all_reduce of 4 B and of 256 B: 144 ->
  /// 129 and 189 -> 164 ns). For while the others are waited for.
  void fetch_next(std::size_t size) const noexcept;
  /// `rank` has begun this rank's round: until the next one the rest is there to be read.
  bool is_here(int rank) const noexcept { return post(rank, round_).round.load(std::memory_order_acquire) == round_; }
  std::uint64_t history(int rank) const noexcept { return post(rank, round_).history; }
  /// `rank` has begun the round after this rank's, with another history than `history`.
  bool differs_in_next(int rank, std::uint64_t history) const noexcept {
    const Post& next = post(rank, round_ + 1);
    return next.round.load(std::memory_order_acquire) == round_ + 1 && next.history != history;
  }
  /// What `rank` did in a round of late, this one included, or before it; nothing if that is not there any more.
  std::optional<Frame> call(int rank, std::uint64_t round, bool before = false) const noexcept;
  /// All calls of `rank` before that number had ended when it began that round; nothing if its post is not there.
  std::optional<std::uint32_t> oldest_running(int rank, std::uint64_t round) const noexcept;
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
  /// The words of a frame that say which call it is. Read while its writer may be at another one: `round` tells the
  /// reader.
  using Words = std::array<std::atomic<std::uint64_t>, call_words>;
  struct alignas(128) Post {
    std::atomic<std::uint64_t> round{0};  ///< written last; with `is_written` in it: not yet
    std::uint64_t history;
    std::array<std::byte, post_bytes> contribution;
    Words call;
    Words before;
    std::atomic<std::uint32_t> oldest_running;
  };  // three cache lines; a reader of a short contribution, whose caller did what it does, needs the first only
  struct alignas(128) Note {
    std::atomic<std::uint32_t> alarm{0};
    Farewell farewell;
  };
  static_assert(sizeof(Post) == 256 && offsetof(Post, oldest_running) + sizeof(Post::oldest_running) <= 192);

  static constexpr std::uint64_t is_written = std::uint64_t{1} << 63;

  std::uint64_t depth(std::size_t size) const noexcept {
    return size > std::max(post_bytes, shelf_) ? room_depth_ : board_depth;
  }
  bool all_have_read(std::size_t size) noexcept;
  void before_alarms() noexcept;
  template <class Look>
  auto find(int rank, std::uint64_t round, const Look& look) const noexcept;
  Post& post(int rank, std::uint64_t round) const noexcept {
    return posts_[(round % board_depth) * static_cast<std::size_t>(ranks_) + static_cast<std::size_t>(rank)];
  }
  Note& note(int rank) const noexcept { return notes_[static_cast<std::size_t>(rank)]; }
  std::byte* place(int rank, std::uint64_t round, std::size_t size) const noexcept;

  std::shared_ptr<std::byte> memory_;
  std::shared_ptr<std::byte> rooms_;  ///< null: not yet
  int ranks_;
  int rank_;
  Post* posts_;
  Note* notes_;
  std::atomic<std::uint32_t>* sleepers_;  ///< how many have raised their alarms, on a cache line of its own
  std::size_t shelf_ = 0;
  std::size_t capacity_;
  std::uint64_t room_depth_ = 0;  ///< 0: nothing that needs room may begin
  std::byte* large_ = nullptr;
  std::uint64_t round_ = 0;
  std::uint64_t all_begun_ = 0;  ///< rounds that all ranks have begun, as last seen
  bool is_armed_ = false;
  bool is_cut_ = false;
};

}  // namespace tutti::transport
