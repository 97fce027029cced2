#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "lib/board/board_call.h"
#include "lib/board/board_trace.h"
#include "lib/collective/operation.h"
#include "lib/engine/engine.h"
#include "lib/engine/fifo.h"
#include "transport/memory/board.h"

namespace tutti::detail {

/// Collectives of one communicator whose ranks share memory. Each rank writes its contribution to a board and reads
/// what the others wrote, without messages; a contribution that does not fit takes several rounds. A tiny call costs
/// one trip of a cache line.
///
/// Calls run one at a time, in the order of their numbers. Threading: serves() from any thread, the rest on the thread
/// that owns the engine.
class BoardCollectives final : public Pollable {
 public:
  /// `limit`: bytes that one rank may contribute to a call; equal on all ranks.
  BoardCollectives(Collectives& collectives, Group& group, transport::Transport& transport, transport::Channel channel,
                   std::size_t limit);

  /// Whether such a call goes over the board; the same on all ranks. `bytes`: of the call, as in the tuning table.
  /// `contribution`: bytes of one rank.
  bool serves(const Prepared& prepared, Collective collective, std::size_t bytes, std::size_t contribution) const;

  /// A call, and the words that are posted with it. `history` is a hash of all calls so far, this one included, and
  /// differs between ranks whose calls differ. `before` is the call before this one. All of them must be kept until the
  /// call is over.
  struct Entry {
    const BoardCall* call = nullptr;
    const transport::CallWords* words = nullptr;
    const transport::CallWords* before = nullptr;
    std::uint64_t history = 0;
    Operation* operation = nullptr;
  };
  void start(const Entry& entry) noexcept;
  /// Forgets all calls, which have been told of the group's failure or end.
  void clear() noexcept;

  // ---- For inline calls
  /// Whether the next one waits for a microsecond or two only. Said before each, by the owner of the engine.
  void hurry(bool hurried) noexcept { hurried_ = hurried; }
  std::size_t capacity() const { return capacity_; }
  /// No other call runs, and this one may begin, perhaps after a moment's wait.
  bool is_free_for(const BoardCall& call) noexcept {
    if (!board_ || !queue_.empty() || !board_->has(call.part())) return false;
    return may_begin_inline(call) || wait_a_little_for_room(call);
  }
  /// Begins a call that may_run_inline() and for which the board is_free_for(): posts this rank's contribution.
  void begin_inline(const Entry& entry) noexcept;
  /// Waits a moment for the others and completes the call. False: they have not come, or the group fails, and the call
  /// must be start()ed.
  bool end_inline(const Entry& entry) noexcept;
  /// Since begin_inline() this thread has given its core away, perhaps for long.
  bool has_yielded() const { return has_yielded_; }
  /// Bytes posted, and read from others, since begin_inline().
  std::size_t moved() const { return posted_ + read_; }
  const BoardTrace::Times& times() const { return trace_.times(); }

  // ---- For errors
  /// Whether the operation waits for `peer`.
  bool awaits(int peer, const Operation& operation) const;
  /// The calls that `peer` has made recently, as far as the board still shows them, by rounds; some may be there twice,
  /// and calls that are longer ago may stand between them.
  std::vector<transport::Frame> calls_of(int peer) const;
  /// The call that `peer` is in, if operation `number` has ended there. Makes sure that there is a board, since the
  /// answer is read from it.
  std::optional<transport::Frame> call_after(int peer, std::uint64_t number) noexcept;

  bool progress() noexcept override;
  bool idle() const noexcept override { return queue_.empty(); }
  bool prepare_sleep() noexcept override;
  void awake() noexcept override;

 private:
  bool find_board(transport::BoardPart with = transport::BoardPart::posts_only) noexcept;
  bool begin(const Entry& entry) noexcept;
  inline void post(const Entry& entry) noexcept;
  inline std::size_t put(const BoardCall& call, std::size_t size) noexcept;
  inline bool get_ready_to_wait(const BoardCall& call) noexcept;
  inline void fetch_next_post(const BoardCall& call, bool waits) noexcept;
  bool wait_for_all(const Entry& entry) noexcept;
  bool may_begin_inline(const BoardCall& call) noexcept { return board_->may_begin(call.reservation()); }
  bool wait_a_little_for_room(const BoardCall& call) noexcept;
  bool may_begin(const Entry& entry) noexcept;
  bool may_add(const Entry& entry) noexcept;
  bool is_here(int rank, const BoardCall& call) const noexcept {
    return call.in_row() ? board_->has_begun(rank, call.row().late()) : board_->is_here(rank);
  }
  bool heed_abort(int rank) noexcept;
  bool heed_other_call(int rank, const Entry& entry) noexcept;
  void fail_for_other_call(int rank, const Entry& entry) noexcept;
  inline bool all_are_here(const Entry& entry) noexcept;
  void end_round() noexcept;
  inline void wake_sleepers() noexcept;
  BoardTrace::Round round_of(const Entry& entry) const noexcept {
    return {*entry.call, *entry.words, round_, entry.operation == nullptr};
  }

  Collectives& collectives_;
  Group& group_;
  transport::Transport& transport_;
  transport::Channel channel_;
  std::size_t limit_;
  std::size_t capacity_;               ///< of the board
  transport::StoreChoice path_;        ///< how contributions are copied to the board
  transport::Board* board_ = nullptr;  ///< owned by the transport; null until it is there
  Fifo<Entry> queue_;
  int round_ = 0;                            ///< of the first call in the queue, from 0
  const std::byte* contribution_ = nullptr;  ///< of that call; an injected fault may have changed a copy
  bool begun_ = false;                       ///< this rank has begun the round
  bool stuck_ = false;                       ///< the call never ends here: an injected fault, or ranks that differ
  bool hurried_ = false;                     ///< the caller of the inline call has other work
  bool has_yielded_ = false;                 ///< since begin_inline()
  bool looked_for_sleepers_ = false;         ///< since the last post
  std::uint32_t last_posted_ = 0;            ///< number of the last call that was posted
  std::size_t checked_ = 0;                  ///< awaited ranks that are known to have begun the round
  std::size_t posted_ = 0;                   ///< bytes, since begin_inline()
  std::size_t read_ = 0;                     ///< bytes, since begin_inline()
  BoardTrace trace_;
};

}  // namespace tutti::detail
