#include "lib/collective/operation_trace.h"

#include <utility>

#include "lib/collective/operation.h"
#include "lib/group/group.h"

namespace tutti::detail {

using algorithms::Step;
using algorithms::Verb;
using trace::Flags;

void OperationTrace::prepare(trace::Recorder* recorder, std::size_t steps) {
  recorder_ = recorder;
  if (recorder) times_.assign(steps, {});
}

void OperationTrace::begin(std::int64_t ticks) {
  begun_ = ticks;
  recorder_->add(record_of(trace::Kind::begun, ticks, 0));
}

trace::Record OperationTrace::record_of(trace::Kind kind, std::int64_t begin, std::int64_t end) const noexcept {
  const transport::Frame& frame = operation_.frame();
  return {.begin = begin,
          .end = end,
          .count = elements_of(frame.count, frame.variable),
          .operation = frame.operation,
          .peer = frame.root,
          .group = operation_.group().trace_index(),
          .kind = kind,
          .collective = frame.collective,
          .type = frame.data_type,
          .op = frame.op,
          .name = kind == trace::Kind::call || kind == trace::Kind::begun ? recorder_->name(operation_.prepared().name)
                                                                          : trace::no_name,
          .flags = frame.variable ? Flags::variable : std::uint8_t{0}};
}

void OperationTrace::step_ends(std::uint32_t id) noexcept {
  const Step& step = operation_.plan().steps[id];
  StepTimes& times = times_[id];
  const bool sends = step.verb == Verb::send;
  const bool receives = step.verb == Verb::recv || step.verb == Verb::recv_reduce;
  const std::size_t bytes = operation_.bound().bytes_moved(step);
  times.done = true;
  if (bytes == 0) return;
  const trace::Kind kind = sends                     ? trace::Kind::send
                           : receives                ? trace::Kind::receive
                           : step.verb == Verb::copy ? trace::Kind::copy
                                                     : trace::Kind::reduce;
  trace::Record record = record_of(kind, times.begin, trace::ticks_after());
  record.middle = times.middle;
  record.bytes = bytes - std::exchange(times.copied, 0);
  record.count = times.number;
  record.step = id;
  record.peer = sends || receives ? operation_.group().global_rank(step.peer) : -1;
  if (times.at_once) record.flags |= Flags::at_once;
  if (step.verb == Verb::recv_reduce) record.flags |= Flags::reduces;
  recorder_->add(record);
}

void OperationTrace::piece_copied(std::uint32_t step, std::size_t bytes) noexcept {
  if (!recorder_) return;
  trace::Record record = record_of(trace::Kind::copy, times_[step].begin, trace::ticks_after());
  record.step = step;
  record.bytes = bytes;
  record.peer = -1;
  recorder_->add(record);
  times_[step].copied += bytes;
}

void OperationTrace::piece_reduced(std::uint32_t step, std::int64_t begin, std::size_t bytes) noexcept {
  trace::Record record = record_of(trace::Kind::reduce, begin, trace::ticks());
  record.step = step;
  record.bytes = bytes;
  recorder_->add(record);
}

/// A call that fails also records what it was waiting for.
void OperationTrace::end(bool failed) noexcept {
  trace::Record call = record_of(trace::Kind::call, begun_, trace::ticks_after());
  if (failed) call.flags |= Flags::failed;
  for (std::uint32_t id = 0; failed && id < times_.size(); ++id) {
    const Step& step = operation_.plan().steps[id];
    if (times_[id].begin == 0 || times_[id].done || step.peer < 0) continue;
    trace::Record record =
        record_of(step.verb == Verb::send ? trace::Kind::send : trace::Kind::receive, times_[id].begin, call.end);
    record.bytes = operation_.bound().bytes_moved(step);
    record.step = id;
    record.peer = operation_.group().global_rank(step.peer);
    record.count = 0;  // no other rank will have a message that matches it
    record.flags = call.flags;
    recorder_->add(record);
  }
  recorder_->add(call);
}

}  // namespace tutti::detail
