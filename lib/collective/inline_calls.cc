#include "lib/collective/inline_calls.h"

#include <fmt/format.h>

#include <utility>

#include "lib/base/internals.h"
#include "lib/board/board_collectives.h"
#include "lib/collective/call_history.h"
#include "lib/collective/collectives.h"
#include "lib/group/context.h"
#include "lib/group/group.h"
#include "lib/observe/black_box_begin.h"

namespace tutti::detail {
namespace {

/// For an engine that this thread owns.
struct GiveBack {
  void operator()(Engine* engine) const noexcept { engine->disown(); }
};

}  // namespace

InlineCalls::InlineCalls(Collectives& collectives, Group& group, BoardCollectives& board, LinkQueues& queues,
                         CallHistory& history)
    : collectives_(collectives), group_(group), board_(board), links_(group, queues), history_(history) {}

bool InlineCalls::may_do(const Request& request) const {
  const Context& context = group_.context();
  return !context.injector && !request.variable && !(request.op && request.op->kind() == OpKind::premul_sum) &&
         !context.log.shows(Log::Level::trace, Log::Subsystem::coll);
}

bool InlineCalls::run(const Request& request) {
  if (!may_do(request)) return false;
  const Planned planned = collectives_.plan(request);
  if (!planned.on_board &&
      !(InlineExchange::suits(request, planned.prepared) && links_.is_allowed(*planned.prepared.exchange)))
    return false;
  Engine& engine = *group_.context().engine;
  if (!request.algorithm.empty() || (request.op && request.op->kind() == OpKind::user)) {
    const PreparedCall call{request, planned, collectives_.pool(), group_, board_.capacity()};
    return call.may_run_inline() && engine.try_own() && run_owned(call);
  }
  if (!engine.try_own()) return false;
  std::unique_ptr<Engine, GiveBack> owned{&engine};  // should there be no memory
  last_output_.store(nullptr, std::memory_order_relaxed);
  windows_ = collectives_.windows()->changes();
  last_.emplace(request, planned, collectives_.pool(), group_, board_.capacity());
  if (!last_->may_run_inline()) return false;
  last_output_.store(hint_of(request), std::memory_order_relaxed);
  static_cast<void>(owned.release());  // run_owned() gives it up
  return run_owned(*last_);
}

bool InlineCalls::run_again(const Request& request) {
  Engine& engine = *group_.context().engine;
  if (last_output_.load(std::memory_order_relaxed) != hint_of(request) || !engine.try_own()) return false;
  if (!last_ || !last_->is(request) || windows_ != collectives_.windows()->changes()) {
    engine.disown();
    return false;
  }
  if (last_->record.name == 0) last_->record.name = black_box::new_form_name();
  return run_owned(*last_);
}

std::optional<Work> InlineCalls::begin(const PreparedCall& call, bool asynchronous) {
  if (!call.planned.on_board || !call.board.may_run_inline()) return std::nullopt;
  if (!group_.context().engine->try_own()) return std::nullopt;
  Begun begun;
  board_.hurry(asynchronous);
  if (!may_begin(call)) return std::nullopt;
  return do_owned(call, begun) ? Work{} : go_on(call, begun, asynchronous);
}

// ---- For the owner of the engine, who gives it up here ----------------------------------------------------------
// What a tiny call passes is inlined. Registers that functions save and restore are a third of its stores, and those
// behind its post wait in line with it. Once 64 of them do, the call stalls (2 cores of a Zen 4, broadcast of 4 B back
// to back: 0.150 us with a call for each function, 0.105 without).

[[gnu::always_inline]] inline bool InlineCalls::run_owned(const PreparedCall& call) {
  Begun begun;
  board_.hurry(false);
  if (!may_begin(call)) return false;
  if (!do_owned(call, begun)) go_on(call, begun, false).wait();
  return true;
}

[[gnu::always_inline]] inline bool InlineCalls::may_begin(const PreparedCall& call) {
  const auto is_free = [&] {
    return call.links ? !collectives_.busy() && links_.may_begin(*call.links) : board_.is_free_for(call.board);
  };
  if (!group_.failing() && is_free()) [[likely]]
    return true;
  group_.context().engine->disown();
  return false;
}

/// False: the others have not come yet. The call must go_on(), and this thread still owns the engine.
[[gnu::always_inline]] inline bool InlineCalls::do_owned(const PreparedCall& call, Begun& begun) {
  if (!(call.links ? do_over_links(call, begun) : do_on_board(call, begun))) return false;
  collectives_.count_made();
  history_.end(history_.last_number());
  group_.context().engine->disown();
  return true;
}

[[gnu::always_inline]] inline bool InlineCalls::do_on_board(const PreparedCall& call, Begun& begun) {
  const transport::CallWords& before = history_.call(history_.last_number());
  const transport::CallWords& words =
      history_.begin(call.words, call.planned.prepared, call.planned.location.given(), group_.within());
  const BoardCollectives::Entry entry{
      .call = &call.board, .words = &words, .before = &before, .history = history_.hash()};
  board_.begin_inline(entry);

  // Uses the time while the post is on its way to the others.
  const std::int64_t now = note_begin(call, begun);
  begun.began = board_.times().begun;
  if (!board_.end_inline(entry)) return false;
  begun.flight.land_inline(static_cast<std::uint32_t>(call.board.rounds()), board_.moved(),
                           call.is_short && !board_.has_yielded() ? now : black_box::coarse_now());
  if (group_.context().recorder) [[unlikely]]
    record(call, transport::frame_of(words));
  return true;
}

bool InlineCalls::do_over_links(const PreparedCall& call, Begun& begun) {
  begun.history = history_.hash();
  transport::Frame frame =
      transport::frame_of(history_.begin(call.words, call.planned.prepared, false, group_.within()));
  frame.history = static_cast<std::uint32_t>(begun.history);
  note_begin(call, begun);
  if (!links_.run(*call.links, frame, begun.exchange)) return false;
  begun.flight.land_inline(static_cast<std::uint32_t>(call.planned.prepared.plan.steps.size()), links_.moved(),
                           black_box::coarse_now());
  return true;
}

/// Returns the time.
[[gnu::always_inline]] inline std::int64_t InlineCalls::note_begin(const PreparedCall& call, Begun& begun) noexcept {
  black_box::Box* const box = group_.context().black_box.get();
  const std::int64_t now = box ? black_box::coarse_now() : 0;
  if (box) begun.flight = box->begin_again(call.record, history_.last_number(), now);
  return now;
}

/// Makes an operation of a call that has begun inline, whose number, post and messages it keeps.
Work InlineCalls::go_on(const PreparedCall& call, const Begun& begun, bool asynchronous) {
  std::unique_ptr<Engine, GiveBack> engine{group_.context().engine.get()};
  const std::uint64_t number = history_.last_number();
  Operation* operation = nullptr;
  try {
    operation = &collectives_.make(call);
  } catch (...) {
    const transport::Frame frame = transport::frame_of(history_.call(number));
    group_.fail(
        Error{ErrorCode::system,
              fmt::format("{} ran out of memory in the middle of {}", group_.name_of(group_.rank()), describe(frame)),
              group_.rank(), number});
    engine->pass();  // peers and links hear of it before the caller has its buffers back
    throw;
  }
  operation->take_over(number, begun);
  operation->asynchronous = asynchronous;
  engine.release()->submit_and_disown(*operation);
  return Internals::make<Work>(operation);
}

/// Records a call for the trace. The rounds of a call of several rounds have been recorded separately.
void InlineCalls::record(const PreparedCall& call, const transport::Frame& frame) noexcept {
  const BoardTrace::Times& times = board_.times();
  const bool short_call = call.board.rounds() == 1;
  trace::Recorder& recorder = *group_.context().recorder;
  recorder.add({.begin = times.begun,
                .middle = times.here,
                .end = call.board.part_bytes() <= trace::tiny ? times.here : trace::ticks_after(),
                .bytes = short_call ? static_cast<std::uint64_t>(times.posted) : 0,
                .count = frame.count,
                .operation = frame.operation,
                .peer = frame.root,
                .group = group_.trace_index(),
                .kind = short_call ? trace::Kind::inline_call : trace::Kind::call,
                .collective = frame.collective,
                .type = frame.data_type,
                .op = frame.op,
                .name = recorder.name(call.planned.prepared.name)});
}

}  // namespace tutti::detail
