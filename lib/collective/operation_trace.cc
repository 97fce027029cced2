// What is written down about a call: the log, the black box, the trace.

#include <fmt/format.h>

#include "lib/board/board_collectives.h"
#include "lib/collective/collectives.h"
#include "lib/collective/operation.h"
#include "lib/group/context.h"
#include "lib/group/group.h"
#include "lib/observe/black_box_begin.h"

namespace tutti::detail {

using algorithms::Step;
using algorithms::Verb;
using trace::Flags;
using trace::Kind;

void Operation::note_start(Clock::time_point now) noexcept {
  if (trace_) [[unlikely]]
    trace_->trace(Log::Subsystem::coll, describe() + " begins");
  if (recorder_) [[unlikely]] {
    if (!taken_over_) begun_ = trace::ticks();
    recorder_->add(record_of(Kind::begun, begun_, 0));
  }
  black_box::Box* const box = group_->context().black_box.get();
  if (!box || taken_over_) return;
  black_box::Call call =
      recorded(frame_, group_->id(), number_, prepared_->label, progress().all, variable_, board_.has_value());
  call.started = std::chrono::nanoseconds{now.time_since_epoch()}.count();
  flight_ = box->begin(call);
}

void Operation::note_end(const Error* error) noexcept {
  if (recorder_) [[unlikely]]
    record_end(error != nullptr);
  flight_.land(error);
  if (!trace_) [[likely]]
    return;
  trace_->trace(Log::Subsystem::coll,
                error ? std::string{"fails: "} + error->what()
                      : fmt::format("{} ends: {} {}{}, {} bytes", describe(), parts(), board_ ? "round" : "step",
                                    parts() == 1 ? "" : "s", sent_ + received_));
}

// ---- The trace -------------------------------------------------------------------------------------------------

trace::Record Operation::record_of(Kind kind, std::int64_t begin, std::int64_t end) const noexcept {
  return {.begin = begin,
          .end = end,
          .count = elements_of(frame_.count, frame_.variable),
          .operation = frame_.operation,
          .peer = frame_.root,
          .group = group_->trace_index(),
          .kind = kind,
          .collective = frame_.collective,
          .type = frame_.data_type,
          .op = frame_.op,
          .name = kind == Kind::call || kind == Kind::begun ? recorder_->name(prepared_->name) : trace::no_name,
          .flags = variable_ ? Flags::variable : std::uint8_t{0}};
}

void Operation::note_given(std::uint32_t step, std::uint64_t number) noexcept {
  times_[step].middle = trace::ticks();
  times_[step].number = number;
}

void Operation::record_step(std::uint32_t id) noexcept {
  const Step& step = plan().steps[id];
  StepTimes& times = times_[id];
  const bool sends = step.verb == Verb::send;
  const bool receives = step.verb == Verb::recv || step.verb == Verb::recv_reduce;
  const std::size_t bytes = bytes_moved(sends ? step.left : step.dst);
  times.done = true;
  if (bytes == 0) return;
  const Kind kind = sends ? Kind::send : receives ? Kind::receive : step.verb == Verb::copy ? Kind::copy : Kind::reduce;
  trace::Record record = record_of(kind, times.begin, trace::ticks_after());
  record.middle = times.middle;
  record.bytes = bytes;
  record.count = times.number;
  record.step = id;
  record.peer = sends || receives ? group_->global_rank(step.peer) : -1;
  if (times.at_once) record.flags |= Flags::at_once;
  if (step.verb == Verb::recv_reduce) record.flags |= Flags::reduces;
  recorder_->add(record);
}

void Operation::record_reduction(std::uint32_t step, std::int64_t begin, std::size_t bytes) noexcept {
  trace::Record record = record_of(Kind::reduce, begin, trace::ticks());
  record.step = step;
  record.bytes = bytes;
  recorder_->add(record);
}

/// Of a call that fails also what it was waiting for.
void Operation::record_end(bool failed) noexcept {
  trace::Record call = record_of(Kind::call, begun_, trace::ticks_after());
  if (failed) call.flags |= Flags::failed;
  for (std::uint32_t id = 0; failed && !board_ && id < times_.size(); ++id) {
    const Step& step = plan().steps[id];
    const bool sends = step.verb == Verb::send;
    if (times_[id].begin == 0 || times_[id].done || step.peer < 0) continue;
    trace::Record record = record_of(sends ? Kind::send : Kind::receive, times_[id].begin, call.end);
    record.bytes = bytes_moved(sends ? step.left : step.dst);
    record.step = id;
    record.peer = group_->global_rank(step.peer);
    record.count = 0;  // nobody will ever receive it, or be known to have sent it
    record.flags = call.flags;
    recorder_->add(record);
  }
  recorder_->add(call);
}

/// A call over a board, without an operation, has ended. One of several rounds has said what it did in each.
void Collectives::record_at_once(const Ready& ready, const transport::Frame& frame) noexcept {
  const BoardCollectives::Times& times = board_->times();
  const bool short_call = ready.board.rounds() == 1;
  recorder_->add({.begin = times.begun,
                  .middle = times.here,
                  .end = ready.board.part_bytes() <= trace::tiny ? times.here : trace::ticks_after(),
                  .bytes = short_call ? static_cast<std::uint64_t>(times.posted) : 0,
                  .count = frame.count,
                  .operation = frame.operation,
                  .peer = frame.root,
                  .group = group_.trace_index(),
                  .kind = short_call ? trace::Kind::call_at_once : trace::Kind::call,
                  .collective = frame.collective,
                  .type = frame.data_type,
                  .op = frame.op,
                  .name = recorder_->name(ready.planned.prepared.name)});
}

}  // namespace tutti::detail
