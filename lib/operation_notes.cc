// What is written down about an operation: the log, the black box, the trace.

#include <fmt/format.h>

#include "lib/base/black_box_begin.h"
#include "lib/collectives.h"
#include "lib/context.h"
#include "lib/group.h"
#include "lib/operation.h"

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
  black_box::Call call = recorded(frame_, group_->id(), number_, prepared_->label, plan().steps.size(), variable_);
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
                      : fmt::format("{} ends: {} steps, {} bytes", describe(), plan().steps.size(), sent_ + received_));
}

// ---- The trace -------------------------------------------------------------------------------------------------

trace::Record Operation::record_of(Kind kind, std::int64_t begin, std::int64_t end) const noexcept {
  return {.begin = begin,
          .end = end,
          .count = frame_.count,
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
  const std::size_t bytes = binding_.bytes(sends ? step.left : step.dst).size();
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
  for (std::uint32_t id = 0; failed && !flat_ && id < times_.size(); ++id) {
    const Step& step = plan().steps[id];
    const bool sends = step.verb == Verb::send;
    if (times_[id].begin == 0 || times_[id].done || step.peer < 0) continue;
    trace::Record record = record_of(sends ? Kind::send : Kind::receive, times_[id].begin, call.end);
    record.bytes = binding_.bytes(sends ? step.left : step.dst).size();
    record.step = id;
    record.peer = group_->global_rank(step.peer);
    record.count = 0;  // nobody will ever receive it, or be known to have sent it
    record.flags = call.flags;
    recorder_->add(record);
  }
  recorder_->add(call);
}

}  // namespace tutti::detail
