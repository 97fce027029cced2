#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/arithmetic.h"
#include "lib/base/black_box.h"
#include "lib/binding.h"
#include "lib/call.h"
#include "lib/flat_call.h"
#include "lib/pending.h"
#include "lib/planner.h"
#include "lib/pool.h"
#include "lib/trace/recorder.h"
#include "lib/vigil.h"

namespace tutti::detail {

class Collectives;
class Group;
class Injector;

/// How a call is to be carried out.
struct Planned {
  const Prepared& prepared;
  bool flat;
  Place place;

  /// What the ranks must have alike, beyond the call itself.
  std::uint32_t hash() const { return prepared.hash ^ place.hash(); }
};

/// One collective on its way: a plan bound to memory, with a counter per step.
class Operation final : public Pending {
 public:
  explicit Operation(std::shared_ptr<Engine> engine) : Pending(std::move(engine)) {}

  /// Binds a checked request. On the caller's thread, before submit(). `flat_capacity`: of a board's round; 0: it goes
  /// step by step.
  void prepare(Collectives& collectives, Group& group, const Planned& planned, const Request& request,
               std::uint64_t number, std::shared_ptr<Pool<Operation>> pool, std::size_t flat_capacity);
  /// Its part in the order of calls was taken by a caller that tried to do it all at once, and it is on the board.
  /// `begun`: when, for its trace.
  void take_over(std::uint64_t number, black_box::Flight flight, std::int64_t begun) noexcept;
  /// Its place in the order of calls: certain when it starts, since several threads may call at once.
  void set_number(std::uint64_t number) noexcept;
  /// Ranks whose earlier calls differ must notice: they are part of what its messages say.
  void add_history(std::uint64_t history) noexcept { frame_.algorithm ^= static_cast<std::uint32_t>(history); }

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

  // ---- For Flat, which does the whole plan at once
  /// Null: it goes step by step.
  const FlatCall* flat() const { return flat_ ? &*flat_ : nullptr; }
  bool has_begun() const { return taken_over_; }
  bool is_in_window() const { return flat_ && flat_->place.given(); }
  /// Plays what is injected at the steps that send, or at the others. False: it must not go on, and never will.
  /// `contribution`: what is sent, perhaps tampered with.
  bool play_faults(bool sends, std::span<const std::byte>& contribution) noexcept;
  /// `part` of `whole` equal parts of its steps are done.
  void advance(int part, int whole) noexcept;
  void complete_all() noexcept;

  const algorithms::Plan& plan() const { return prepared_->plan; }
  const Prepared& prepared() const { return *prepared_; }
  std::uint32_t remaining() const { return remaining_; }
  void count_received(std::size_t bytes) { received_ += bytes; }
  const transport::Frame& frame() const { return frame_; }
  Group& group() const { return *group_; }
  Injector* injector() const { return injector_; }

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
  void stage(const Request& request);
  std::size_t staged_bytes(const Request& request) const;
  void bind_flat(const Request& request);
  void bind_sides(const Request& request);
  void issued(std::uint32_t step) noexcept;
  void succeed() noexcept;
  void note_start(Clock::time_point now) noexcept;
  void note_end(const Error* error) noexcept;
  void release(std::uint32_t step) noexcept;
  bool is_copied(std::uint32_t step) const noexcept { return !copies_.empty() && !copies_[step].empty(); }
  void record_step(std::uint32_t step) noexcept;
  void record_reduction(std::uint32_t step, std::int64_t begin, std::size_t bytes) noexcept;
  void record_end(bool failed) noexcept;
  void combine(std::byte* dst, const std::byte* left, const std::byte* right, std::size_t bytes) noexcept {
    arithmetic_.combine(dst, left, right, bytes);
  }
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
  const Log* trace_ = nullptr;    // null unless every operation is logged
  Injector* injector_ = nullptr;  // null unless a fault aims at this operation
  bool variable_ = false;         // a _v call
  bool streams_ = false;          // its result is written past the caches
  std::optional<FlatCall> flat_;  // none: step by step
  bool taken_over_ = false;

  const Request* bound_to_ = nullptr;  // a persistent one, which `binding_` and `memory_` serve already
  Binding binding_;
  std::vector<std::size_t> prefix_[2];  // offsets of the parts of _v calls: input's and output's
  std::vector<std::uint32_t> waiting_;
  std::uint32_t remaining_ = 0;
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
  std::uint64_t sent_ = 0;      // bytes handed to links
  std::uint64_t asked_at_ = 0;  // received_ when the others were last asked
  Vigil vigil_;
  black_box::Flight flight_;
  struct FreeBytes {
    void operator()(std::byte* bytes) const noexcept;
  };
  std::unique_ptr<std::byte, FreeBytes> memory_;  // scratch and staged input; grows, is kept
  std::size_t memory_size_ = 0;
  std::size_t scratch_bytes_ = 0;  // of it; staged input follows
};

}  // namespace tutti::detail
