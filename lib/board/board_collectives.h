#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "lib/board/board_call.h"
#include "lib/collective/operation.h"
#include "lib/engine/engine.h"
#include "lib/engine/fifo.h"
#include "transport/memory/board.h"

namespace tutti::detail {

/// Collectives of one communicator whose ranks share memory: each rank puts its contribution on a board, in rounds if
/// it does not fit, and reads what the others put there, without messages. A tiny call costs one trip of a cache line.
///
/// Calls go one after the other, in the order of their numbers. Threading: serves() from anywhere, the rest on the
/// thread that owns the engine.
class BoardCollectives final : public Pollable {
 public:
  /// `limit`: bytes that one rank may contribute to a call, equal on all ranks.
  BoardCollectives(Collectives& collectives, Group& group, transport::Transport& transport, transport::Channel channel,
                   std::size_t limit);

  /// Whether such a call goes over the board. All ranks get the same answer for the same call.
  /// `bytes`: of the call, as algorithms are chosen by; `contribution`: of one rank.
  bool serves(const Prepared& prepared, Collective collective, std::size_t bytes, std::size_t contribution) const;

  /// `history` stands for all calls so far, this one included; ranks whose calls differ have another one. `before` is
  /// what the call before this was. All of them are kept until the call is over.
  struct Entry {
    const BoardCall* call = nullptr;
    const transport::FrameWords* frame = nullptr;
    const transport::FrameWords* before = nullptr;
    std::uint64_t history = 0;
    Operation* operation = nullptr;
  };
  void start(const Entry& entry) noexcept;
  /// The group has failed or ends: whatever waited has been told.
  void clear() noexcept;

  // ---- For a caller that tries to do a call at once
  std::size_t capacity() const { return capacity_; }
  /// Nothing is before the call, and it may begin: now, or after a short while.
  bool is_free_for(const BoardCall& call) noexcept {
    if (!board_ || !queue_.empty() || (call.uses_rooms() && !board_->has_rooms())) return false;
    const std::size_t size = call.size_of_round(0);
    return board_->may_begin(size) || wait_a_little_for_room(size);
  }
  /// Begins a call that may_run_inline(), and for which it is free: what this rank contributes is on its way.
  void begin_inline(const Entry& entry) noexcept;
  /// Looks for a while whether all are here. False: not yet, or the group fails: it must be start()ed.
  bool end_inline(const Entry& entry) noexcept;
  /// While it waited for them it has given its core away, perhaps for long.
  bool has_yielded() const { return has_yielded_; }
  /// Bytes that it has posted, and read of others.
  std::size_t moved() const { return posted_ + read_; }

  /// When, in ticks, the call that was begun last began, and its round was on the board and complete there; only for a
  /// trace. `posted` is 0 for what takes hardly longer than to look at the clock.
  struct Times {
    std::int64_t begun = 0;
    std::int64_t round_begun = 0;
    std::int64_t posted = 0;
    std::int64_t here = 0;
  };
  const Times& times() const { return times_; }

  // ---- For errors
  /// The operation waits for `peer`.
  bool awaits(int peer, const Operation& operation) const;
  /// What is known of the calls that `peer` has made of late, the oldest first; some may be there twice.
  std::vector<transport::Frame> calls_of(int peer) const;
  /// What `peer` does already, after operation `number` has ended there. Sees to it that there is a board to say so.
  std::optional<transport::Frame> call_after(int peer, std::uint64_t number) noexcept;

  bool progress() noexcept override;
  bool idle() const noexcept override { return queue_.empty(); }
  bool prepare_sleep() noexcept override;
  void awake() noexcept override;

 private:
  bool find_board(bool with_rooms = false) noexcept;
  bool begin(const Entry& entry) noexcept;
  void post(const Entry& entry) noexcept;
  bool wait_a_little(const Entry& entry) noexcept;
  bool wait_a_little_for_room(std::size_t size) noexcept;
  bool may_begin(const Entry& entry) noexcept;
  bool heed_last_words(int rank) noexcept;
  bool heed_other_call(int rank, const Entry& entry) noexcept;
  bool all_are_here(const Entry& entry) noexcept;
  void end_round() noexcept;
  void wake_sleepers() noexcept;
  trace::Record record_of(const Entry& entry, trace::Kind kind) const noexcept;
  void note_post(const Entry& entry) noexcept;
  void record_post(const Entry& entry) noexcept;
  void record_take(const Entry& entry) noexcept;

  Collectives& collectives_;
  Group& group_;
  transport::Transport& transport_;
  transport::Channel channel_;
  trace::Recorder* const recorder_;  ///< null: nobody wants a trace
  std::size_t limit_;
  std::size_t capacity_;               ///< the board's
  transport::StorePath path_;          ///< to the board
  transport::Board* board_ = nullptr;  ///< the transport's; null until it has come
  Fifo<Entry> queue_;
  int round_ = 0;                            ///< of the first of them, from 0
  const std::byte* contribution_ = nullptr;  ///< its, perhaps tampered with
  bool begun_ = false;                       ///< this round has
  bool stuck_ = false;                       ///< it never ends here: an injected fault
  bool has_yielded_ = false;                 ///< since a call began at once
  std::size_t checked_ = 0;                  ///< awaited ranks that have been found to be here
  std::size_t posted_ = 0;                   ///< bytes, since a call began at once
  std::size_t read_ = 0;                     ///< bytes, since a call began at once
  Times times_;
};

}  // namespace tutti::detail
