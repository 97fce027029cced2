#pragma once

#include <cstdint>

#include "lib/collective/operation_trace.h"
#include "lib/engine/pending.h"
#include "lib/observe/black_box.h"
#include "lib/observe/log.h"

namespace tutti::detail {

class Operation;

/// Writes down one operation where people look for it: in the log, in the black box, and in the trace.
class OperationJournal {
 public:
  explicit OperationJournal(const Operation& operation) : operation_(operation), trace_(operation) {}

  /// The operation is bound to a call.
  void prepare();
  /// Its caller began it inline at `ticks`, and wrote that into the black box.
  void take_over(black_box::Flight flight, std::int64_t ticks) noexcept {
    flight_ = flight;
    begun_ = ticks;
  }
  void begin(Clock::time_point now) noexcept;
  /// `parts` steps or rounds are done, and `bytes` were sent and received.
  void progress(std::uint32_t parts, std::uint64_t bytes) noexcept { flight_.progress(parts, bytes); }
  /// `error`: null after success.
  void end(const Error* error, std::uint64_t bytes) noexcept;

  OperationTrace& trace() { return trace_; }

 private:
  const Operation& operation_;
  const Log* log_ = nullptr;  // null unless every operation is logged
  black_box::Flight flight_;
  OperationTrace trace_;
  std::int64_t begun_ = 0;  // for the trace, of an operation that was taken over
};

}  // namespace tutti::detail
