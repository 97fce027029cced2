#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/collective/bound_call.h"
#include "lib/collective/operation_journal.h"
#include "lib/engine/pool.h"
#include "lib/failure/inject.h"
#include "lib/group/group_call.h"
#include "lib/observe/black_box.h"

namespace tutti::detail {

class Collectives;
class Group;

/// What a stream of a GPU does of a call: it moves and combines the bytes, while an operation stands for the call in
/// the engine. On the thread that owns the engine.
class StreamPart {
 public:
  StreamPart() = default;
  StreamPart(const StreamPart&) = delete;
  virtual ~StreamPart() = default;
  /// The call has its place in the order of calls, and this frame.
  virtual void begins(const transport::Frame& frame) const noexcept = 0;
  /// Its waits and signals.
  struct Steps {
    std::uint32_t done = 0;
    std::uint32_t all = 0;
  };
  virtual Steps steps() const noexcept = 0;
  /// Whether the stream waits for something of `peer`, a rank of the group, now.
  virtual bool awaits(int peer) const noexcept = 0;
  /// The call takes long: looks whether the GPU has failed, and returns at once.
  virtual void look_at_device() const noexcept = 0;
  /// "5 of 12 messages had arrived here".
  virtual std::string how_far() const = 0;
};

/// How far a call over links came that its caller began inline.
struct ExchangeProgress {
  bool sent = false;      ///< the link has taken the message
  bool lent = false;      ///< by single copy, which has not ended
  bool receives = false;  ///< a part of the message for this rank has come, and the link puts the rest in its place
  bool received = false;
};

/// A call that its caller began inline.
struct Begun {
  black_box::Flight flight;
  std::uint64_t history = 0;  ///< hash of the calls before it
  std::int64_t began = 0;     ///< when, for the trace
  ExchangeProgress exchange{};
};

/// A running collective: a plan bound to memory, with a counter per step.
class Operation final : public GroupCall {
 public:
  explicit Operation(std::shared_ptr<Engine> engine) : GroupCall(std::move(engine)) {}

  /// Binds a checked request; called on the caller's thread, before submit(). `board_capacity`: bytes that a rank can
  /// contribute to a round of the board; 0: the plan runs step by step, over links.
  void prepare(Collectives& collectives, Group& group, const Planned& planned, const Request& request,
               std::uint64_t number, std::shared_ptr<Pool<Operation>> pool, std::size_t board_capacity);
  /// Continues a call that its caller began inline: it has its number, and its contribution is on the board, or its
  /// messages have come so far.
  void take_over(std::uint64_t number, const Begun& begun) noexcept;
  /// Its place in the order of calls. It is certain only when the operation starts, since several threads may call at
  /// the same time.
  void set_number(std::uint64_t number) noexcept;
  /// Its messages carry a hash of the earlier calls, so that ranks notice if those differ.
  void set_history(std::uint64_t history) noexcept { frame_.history = static_cast<std::uint32_t>(history); }

  // ---- For a call whose input is not there yet
  /// After prepare(): the operation will take its place in the order of calls, but read nothing.
  void await_input() noexcept { awaits_input_ = true; }
  bool awaits_input() const noexcept { return awaits_input_; }
  /// Owner of the engine, while the operation is not over.
  void input_is_there() noexcept;

  // ---- For a call whose bytes a stream moves
  /// After prepare() of a barrier: it stands for `call`, compares it with the calls of the other ranks, and is not over
  /// before stream_has_passed(). `counts`: of a _v call.
  void stand_for(const Call& call, PartOffsets counts, std::shared_ptr<const StreamPart> stream) noexcept;
  /// Owner of the engine, while the operation is not over.
  void stream_has_passed() noexcept;
  /// Not null while the stream has not passed the call.
  const StreamPart* stream_part() const { return stream_part_.get(); }

  /// What is posted to a board: this call and the one before it.
  struct Posts {
    transport::CallWords call{};
    transport::CallWords before{};
  };
  const Posts& set_posts(const transport::CallWords& before) noexcept {
    return posts_ = {transport::call_words_of(frame_), before};
  }

  void start() noexcept override;

  /// Does a step that waits for nothing any more, or hands it to its link. `piece`: as in run_step().
  void run(std::uint32_t step, std::uint32_t piece) noexcept;
  /// The operation gets its turn on lane `lane` of its plan.
  void lane_granted(std::uint32_t lane) noexcept;
  void complete(std::uint32_t step) noexcept;
  /// The next bytes of the message that a recv_reduce step receives.
  void reduce_piece(std::uint32_t step, std::size_t offset, std::span<const std::byte> piece) noexcept;
  /// Ends the operation with `reason`, described from its point of view.
  void fail(const Error& reason) noexcept;

  /// Its caller began it inline, and over links came that far.
  bool has_begun() const { return taken_over_; }
  const ExchangeProgress& exchange() const { return exchange_; }

  // ---- For BoardCollectives
  /// Null: the plan runs step by step, over links.
  const BoardCall* board() const { return bound_.board(); }
  bool is_in_window() const { return board() && board()->is_in_window(); }
  /// Plays the faults that are injected at the steps that send, or at the others. False: the operation must never go
  /// on. `contribution` is what is sent; a fault may replace it by a changed copy.
  bool play_faults(bool sends, std::span<const std::byte>& contribution) noexcept;
  /// `rounds` rounds are over.
  void advance(int rounds) noexcept;
  void complete_all() noexcept { succeed(); }

  const BoundCall& bound() const { return bound_; }
  const algorithms::Plan& plan() const { return bound_.plan(); }
  const Prepared& prepared() const { return bound_.prepared(); }
  /// Progress in steps of the plan, or in rounds of a board.
  struct Progress {
    std::uint32_t done = 0;
    std::uint32_t all = 0;
    bool in_rounds = false;
  };
  Progress progress() const { return {parts() - remaining_, parts(), board() != nullptr}; }
  void count_sent(std::size_t bytes) { sent_ += bytes; }
  void count_received(std::size_t bytes) { received_ += bytes; }
  std::uint64_t bytes_received() const { return received_; }
  const transport::Frame& frame() const { return frame_; }
  Injector* injector() const { return injector_; }
  /// For the injector.
  Injector::Target target() const;

  OperationTrace& trace() { return journal_.trace(); }

  std::uint64_t number() const { return number_; }
  /// As in part_of().
  const char* whole() const { return whole_; }
  /// "all_reduce #42 (ring, 1048576 x f32, sum) on rank 3 of 8".
  std::string describe() const;
  /// "all_reduce #42 (1048576 x f32, sum) with ring": equal on all ranks.
  std::string call_text() const;

  std::uint32_t slot = 0;  ///< set by Collectives
  int suspect = -1;        ///< used by Collectives::notice_who_went_on()

 private:
  void recycle() noexcept override;
  void waits_long(WaitEscalation::Act act) noexcept override;
  void give_up() noexcept;
  void issued(std::uint32_t step) noexcept;
  bool is_allowed(std::uint32_t step) noexcept;
  std::uint32_t parts() const {
    return static_cast<std::uint32_t>(board() ? static_cast<std::size_t>(board()->rounds()) : plan().steps.size());
  }
  void succeed() noexcept;
  void release(std::uint32_t step) noexcept;
  bool is_copied(std::uint32_t step) const noexcept { return !copies_.empty() && !copies_[step].empty(); }

  Collectives* collectives_ = nullptr;
  BoundCall bound_;
  std::shared_ptr<Pool<Operation>> pool_;
  std::uint64_t number_ = 0;
  const char* whole_ = nullptr;
  transport::Frame frame_{};
  Posts posts_;
  std::chrono::milliseconds timeout_{};
  Injector* injector_ = nullptr;  // null unless a fault aims at this operation
  bool taken_over_ = false;
  ExchangeProgress exchange_;  // as it was then
  bool awaits_input_ = false;
  bool started_ = false;
  std::shared_ptr<const StreamPart> stream_part_;

  std::vector<std::uint32_t> waiting_;
  std::uint32_t remaining_ = 0;                 // steps or rounds that are not done
  std::vector<std::vector<std::byte>> copies_;  // by step: of its message, see Prepared::copies_sends
  OperationJournal journal_{*this};
  std::uint64_t received_ = 0;  // bytes
  std::uint64_t sent_ = 0;      // bytes handed to links, or posted
  std::uint64_t asked_at_ = 0;  // received_ when the others were last asked
};

}  // namespace tutti::detail
