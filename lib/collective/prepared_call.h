#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lib/collective/bound_call.h"
#include "lib/collective/operation.h"
#include "lib/engine/pool.h"
#include "lib/observe/black_box.h"
#include "tutti/communicator.h"

namespace tutti::detail {

/// A checked call made ready once: it has its plan, and on a board it is bound to memory, so that a start finds
/// everything. A persistent call is one, and so is the last call of a communicator, which a program often makes again.
///
/// Threading: made on any thread; then one thread at a time.
struct PreparedCall {
  /// `pool`: of the operations that it becomes where it cannot be done at once. `capacity`: of the board.
  PreparedCall(const Request& call, const Planned& plan, std::shared_ptr<Pool<Operation>> operations,
               const Group& group, std::size_t capacity);
  PreparedCall(const PreparedCall&) = delete;

  /// The other call is this one once more, as far as is known without checking it.
  bool is(const Request& other) const noexcept;

  const Op op;
  const std::string algorithm;
  const Request request;  // of what is kept here; the buffers and counts are the caller's
  const Planned planned;
  const std::shared_ptr<Pool<Operation>> pool;
  // On a board:
  BoardCall board;
  transport::FrameWords frame{};  // but for its number
  black_box::Form record;
  bool is_short = false;  // it ends as soon as it has begun, on a coarse clock, unless it waits
};

}  // namespace tutti::detail
