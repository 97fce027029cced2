#include "lib/collective/prepared_call.h"

#include <utility>

#include "lib/collective/call.h"
#include "lib/collective/inline_exchange.h"
#include "lib/group/context.h"
#include "lib/group/group.h"
#include "lib/observe/black_box_begin.h"

namespace tutti::detail {
namespace {

/// Whether the work is over long before the coarse clock ticks.
bool is_short_work(const BoardCall& call, const Op* op) {
  constexpr std::size_t most = 4096;
  return call.rounds() == 1 && call.part_bytes() <= most && !(op && op->kind() == OpKind::user);
}

Request kept(Request request, const Op& op, const std::string& algorithm) {
  if (request.op) request.op = &op;
  request.algorithm = algorithm;
  return request;
}

}  // namespace

PreparedCall::PreparedCall(const Request& call, const Planned& plan, std::shared_ptr<Pool<Operation>> operations,
                           const Group& group, std::size_t capacity)
    : op(call.op ? *call.op : sum),
      algorithm(call.algorithm),
      request(kept(call, op, algorithm)),
      planned(plan),
      pool(std::move(operations)) {
  BoardCall::Ground ground{group.rank(), group.size(), group.context().kernels, capacity};
  std::size_t parts = 0;
  if (planned.on_board) {
    PartOffsets offsets;  // not used: a call with offsets does not run inline
    board = BoardCall::of(request, planned.prepared, planned.location, ground, offsets);
    is_short = is_short_work(board, request.op);
    parts = static_cast<std::size_t>(board.rounds());
  } else if (!request.persistent && InlineExchange::suits(request, planned.prepared)) {
    ground.capacity = 0;
    links.emplace().bind(request, planned, ground);
    parts = planned.prepared.plan.steps.size();
  } else {
    return;
  }
  const transport::Frame frame =
      call_of(request, group.size(), planned.prepared.hash, planned.location.hash()).frame(0);
  words = transport::call_words_of(frame);
  record.words =
      black_box::words_of(recorded(frame, group.id(), 0, planned.prepared.label, parts, false, planned.on_board));
}

bool PreparedCall::is(const Request& other) const noexcept {
  const auto same = [](const auto& one, const auto& another) {
    return one.data == another.data && one.count == another.count && one.type == another.type &&
           one.unit == another.unit;
  };
  const bool same_op = request.op && other.op ? op.kind() == other.op->kind() : request.op == other.op;
  return request.collective == other.collective && same(request.input, other.input) &&
         same(request.output, other.output) && same_op && request.root == other.root && !other.variable &&
         other.algorithm.empty() && request.timeout == other.timeout;
}

}  // namespace tutti::detail
