#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/observe/trace/recorder.h"

namespace tutti::detail {

class Operation;

/// Records one operation for the trace: when it began and ended, and when each of its steps did. If no trace is
/// recorded, only piece_copied() may be called.
class OperationTrace {
 public:
  explicit OperationTrace(const Operation& operation) : operation_(operation) {}

  /// `recorder`: null if no trace is recorded. `steps`: 0 on a board, which records its rounds itself.
  void prepare(trace::Recorder* recorder, std::size_t steps);
  bool is_wanted() const { return recorder_ != nullptr; }

  void begin(std::int64_t ticks);
  void end(bool failed) noexcept;

  void step_begins(std::uint32_t step) noexcept { times_[step].begin = trace::ticks(); }
  /// The link took the message at once.
  void step_sent(std::uint32_t step, bool at_once) noexcept { times_[step].at_once = at_once; }
  /// The step's message is handed to its link, where it has number `number`.
  void message_given(std::uint32_t step, std::uint64_t number) noexcept {
    times_[step].middle = trace::ticks();
    times_[step].number = number;
  }
  /// The step's message begins to arrive.
  void message_arrives(std::uint32_t step) noexcept { times_[step].middle = trace::ticks_after(); }
  /// The step's message has arrived. It has number `number` on its link.
  void message_received(std::uint32_t step, std::uint64_t number) noexcept { times_[step].number = number; }
  void step_ends(std::uint32_t step) noexcept;
  /// A piece of the step's bytes has been copied since step_begins(), which is called for each.
  void piece_copied(std::uint32_t step, std::size_t bytes) noexcept;
  /// A piece of the step's message has been combined.
  void piece_reduced(std::uint32_t step, std::int64_t begin, std::size_t bytes) noexcept;

 private:
  /// When a step began, and when its message was given to a link or came from one; ticks, 0: not yet.
  struct StepTimes {
    std::int64_t begin = 0;
    std::int64_t middle = 0;
    std::uint64_t number = 0;  // of the message
    std::size_t copied = 0;    // bytes of pieces that were recorded
    bool at_once = false;
    bool done = false;
  };
  trace::Record record_of(trace::Kind kind, std::int64_t begin, std::int64_t end) const noexcept;

  const Operation& operation_;
  trace::Recorder* recorder_ = nullptr;
  std::vector<StepTimes> times_;  // by step
  std::int64_t begun_ = 0;
};

}  // namespace tutti::detail
