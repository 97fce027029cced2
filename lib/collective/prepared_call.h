#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "lib/collective/bound_call.h"
#include "lib/collective/operation.h"
#include "lib/engine/pool.h"
#include "lib/observe/black_box.h"
#include "tutti/communicator.h"

namespace tutti::detail {

/// A checked call that is prepared once: it has its plan, and where it may run inline it is bound to memory, so that a
/// start finds everything. It stands for a persistent call, or for a communicator's last call, which programs often
/// repeat.
///
/// Threading: any thread may make it; then one thread at a time.
struct PreparedCall {
  /// `operations`: the pool for the operations that it becomes where it cannot run inline. `capacity`: of the board.
  PreparedCall(const Request& call, const Planned& plan, std::shared_ptr<Pool<Operation>> operations,
               const Group& group, std::size_t capacity);
  PreparedCall(const PreparedCall&) = delete;

  bool may_run_inline() const noexcept { return links || board.may_run_inline(); }
  /// Whether `other` repeats this call, as far as can be said of a request that was not checked.
  bool is(const Request& other) const noexcept;

  const Op op;
  const std::string algorithm;
  const Request request;  // refers to `op` and `algorithm` above, and to the caller's buffers and counts
  const Planned planned;
  const std::shared_ptr<Pool<Operation>> pool;
  // For a call that may run inline:
  BoardCall board;
  mutable std::optional<BoundCall> links;  // instead, if it exchanges messages; running it changes nothing that lasts
  transport::CallWords words{};            // without its number
  black_box::Form record;
  bool is_short = false;  // unless it waits, the coarse clock shows the same time at its end as at its beginning
};

}  // namespace tutti::detail
