#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/board/board_call.h"
#include "lib/collective/arithmetic.h"
#include "lib/collective/binding.h"
#include "lib/collective/call.h"
#include "lib/collective/planner.h"
#include "lib/engine/pending.h"
#include "lib/engine/pool.h"
#include "lib/engine/wait_escalation.h"
#include "lib/failure/inject.h"
#include "lib/observe/black_box.h"
#include "lib/observe/trace/recorder.h"

namespace tutti::detail {

class Collectives;
class Group;

/// How a call is to be carried out.
struct Planned {
  const Prepared& prepared;
  bool on_board;
  WindowLocation location;

  /// What the ranks must have alike, beyond the call itself.
  std::uint32_t hash() const { return prepared.hash ^ location.hash(); }
};

/// One collective on its way: a plan bound to memory, with a counter per step.
class Operation final : public Pending {
 public:
  explicit Operation(std::shared_ptr<Engine> engine) : Pending(std::move(engine)) {}

  /// Binds a checked request. On the caller's thread, before submit(). `board_capacity`: bytes that a rank can
  /// contribute to a round of the board; 0: it goes step by step, over links.
  void prepare(Collectives& collectives, Group& group, const Planned& planned, const Request& request,
               std::uint64_t number, std::shared_ptr<Pool<Operation>> pool, std::size_t board_capacity);
  /// Its part in the order of calls was taken by a caller that tried to do it all at once, and it is on the board.
  /// `begun`: when, for its trace.
  void take_over(std::uint64_t number, black_box::Flight flight, std::int64_t begun) noexcept;
  /// Its place in the order of calls: certain when it starts, since several threads may call at once.
  void set_number(std::uint64_t number) noexcept;
  /// Ranks whose earlier calls differ must notice: its messages carry a hash of them.
  void set_history(std::uint64_t history) noexcept { frame_.history = static_cast<std::uint32_t>(history); }

  /// As they are posted to a board: this call, and the one before it.
  struct Posts {
    transport::FrameWords call{};
    transport::FrameWords before{};
  };
  const Posts& set_posts(const transport::FrameWords& before) noexcept {
    return posts_ = {transport::words_of(frame_), before};
  }

  void start() noexcept override;
  void expire() noexcept override;
  void departed(std::span<const int> ranks) noexcept override;

  /// Step `step` waits for nothing any more: do it, or hand it to its link.
  void run(std::uint32_t step) noexcept;
  /// It is this operation's turn on lane `lane` of its plan.
  void lane_granted(std::uint32_t lane) noexcept;
  void complete(std::uint32_t step) noexcept;
  /// How what a recv step receives is to be copied; null: as usual.
  compute::Copy copy_of(std::uint32_t step) const noexcept;
  /// The next bytes of what a recv_reduce step receives.
  void reduce_piece(std::uint32_t step, std::size_t offset, std::span<const std::byte> piece) noexcept;
  /// Ends with `reason`, put into this operation's words.
  void fail(const Error& reason) noexcept;

  // ---- For BoardCollectives
  /// Null: it goes step by step, over links.
  const BoardCall* board() const { return board_ ? &*board_ : nullptr; }
  bool has_begun() const { return taken_over_; }
  /// Of a _v call: offsets of the parts of its input, and of its output in an all_to_all_v.
  bool is_variable() const { return variable_; }
  const PartOffsets& offsets() const { return offsets_; }
  bool is_in_window() const { return board_ && board_->is_in_window(); }
  /// Plays what is injected at the steps that send, or at the others. False: it must not go on, and never will.
  /// `contribution`: what is sent, perhaps tampered with.
  bool play_faults(bool sends, std::span<const std::byte>& contribution) noexcept;
  /// So many rounds are over.
  void advance(int rounds) noexcept;
  void complete_all() noexcept { succeed(); }

  const algorithms::Plan& plan() const { return prepared_->plan; }
  const Prepared& prepared() const { return *prepared_; }
  /// How far it has come: steps of its plan, or rounds of a board.
  struct Progress {
    std::uint32_t done = 0;
    std::uint32_t all = 0;
    bool in_rounds = false;
  };
  Progress progress() const { return {parts() - remaining_, parts(), board_.has_value()}; }
  void count_sent(std::size_t bytes) { sent_ += bytes; }
  void count_received(std::size_t bytes) { received_ += bytes; }
  const transport::Frame& frame() const { return frame_; }
  Group& group() const { return *group_; }
  Injector* injector() const { return injector_; }
  /// For it.
  Injector::Target target() const;

  // ---- For its trace, if there is one
  trace::Recorder* recorder() const { return recorder_; }
  /// What the step sends goes to its link, as message `number` there.
  void note_given(std::uint32_t step, std::uint64_t number) noexcept;
  /// What it receives begins to come.
  void note_arrived(std::uint32_t step) noexcept { times_[step].middle = trace::ticks_after(); }
  /// And is there, as message `number`.
  void note_received(std::uint32_t step, std::uint64_t number) noexcept { times_[step].number = number; }
  /// A record of this call.
  trace::Record record_of(trace::Kind kind, std::int64_t begin, std::int64_t end) const noexcept;

  std::uint64_t number() const { return number_; }
  /// "all_reduce #42 (ring, 1048576 x f32, sum) on rank 3 of 8".
  std::string describe() const;
  /// "all_reduce #42 (1048576 x f32, sum) with ring": equal on all ranks.
  std::string call_text() const;

  std::uint32_t slot = 0;  ///< the collectives'
  int suspect = -1;        ///< theirs, too

 private:
  void recycle() noexcept override;
  void give_up() noexcept;
  void bind(const Request& request);
  void bind_average(const Request& request);
  void stage(const Request& request);
  std::size_t staged_bytes(const Request& request) const;
  void bind_to_board(const Request& request, const Planned& planned, std::size_t capacity);
  void issued(std::uint32_t step) noexcept;
  bool is_allowed(std::uint32_t step) noexcept;
  std::uint32_t parts() const {
    return board_ ? static_cast<std::uint32_t>(board_->rounds()) : static_cast<std::uint32_t>(plan().steps.size());
  }
  void succeed() noexcept;
  void note_start(Clock::time_point now) noexcept;
  void note_end(const Error* error) noexcept;
  void release(std::uint32_t step) noexcept;
  bool is_copied(std::uint32_t step) const noexcept { return !copies_.empty() && !copies_[step].empty(); }
  void record_step(std::uint32_t step) noexcept;
  void record_reduction(std::uint32_t step, std::int64_t begin, std::size_t bytes) noexcept;
  void record_end(bool failed) noexcept;
  /// Of an average elements of the input, which become contributions first.
  bool is_contributed(const algorithms::Blocks& blocks) const {
    return blocks.buffer == algorithms::Buffer::input && arithmetic_.averages();
  }
  /// Bytes of a message.
  std::size_t bytes_moved(const algorithms::Blocks& blocks) const;
  std::span<const std::byte> payload(const algorithms::Blocks& blocks) noexcept;
  void begin_contribution(std::byte* to, std::span<const std::byte> elements) noexcept;
  void reduce(const algorithms::Step& step) noexcept;
  void combine_piece(const algorithms::Step& step, std::size_t offset, std::span<const std::byte> piece) noexcept;
  void finish_average(std::span<const std::byte> sums) noexcept;
  std::byte* memory(std::size_t bytes);

  Collectives* collectives_ = nullptr;
  Group* group_ = nullptr;
  const Prepared* prepared_ = nullptr;
  std::shared_ptr<Pool<Operation>> pool_;
  std::uint64_t number_ = 0;
  transport::Frame frame_{};
  Posts posts_;
  Arithmetic arithmetic_;
  DataType type_{};
  std::chrono::milliseconds timeout_{};
  const Log* trace_ = nullptr;      // null unless every operation is logged
  Injector* injector_ = nullptr;    // null unless a fault aims at this operation
  bool variable_ = false;           // a _v call
  bool streams_ = false;            // its result is written past the caches
  std::optional<BoardCall> board_;  // none: step by step
  bool taken_over_ = false;

  const Request* bound_to_ = nullptr;  // a persistent one, which `binding_` and `memory_` serve already
  Binding binding_;
  PartOffsets offsets_;  // of a _v call
  std::vector<std::uint32_t> waiting_;
  std::uint32_t remaining_ = 0;                 // steps, or rounds
  std::vector<std::vector<std::byte>> copies_;  // by step: what it sends, if its successors need not wait for that
  /// When a step began, and when its message was given to a link or came from one; ticks, 0: not yet.
  struct StepTimes {
    std::int64_t begin = 0;
    std::int64_t middle = 0;
    std::uint64_t number = 0;  // of the message
    bool at_once = false;      // the link took it
    bool done = false;
  };
  trace::Recorder* recorder_ = nullptr;  // null: nobody wants a trace
  std::vector<StepTimes> times_;         // by step, if somebody does
  std::int64_t begun_ = 0;
  std::uint64_t received_ = 0;  // bytes
  std::uint64_t sent_ = 0;      // bytes handed to links, or posted
  std::uint64_t asked_at_ = 0;  // received_ when the others were last asked
  WaitEscalation escalation_;
  black_box::Flight flight_;
  struct FreeBytes {
    void operator()(std::byte* bytes) const noexcept;
  };
  std::unique_ptr<std::byte, FreeBytes> memory_;  // scratch and staged input; grows, is kept
  std::size_t memory_size_ = 0;
  std::size_t scratch_bytes_ = 0;  // of it; staged input follows, or contributions and sums of an average
  std::vector<bool> contributed_;  // per block of an average's input: it has been sent, and may be on its way still
  std::byte* result_ = nullptr;    // where an average ends
};

}  // namespace tutti::detail
