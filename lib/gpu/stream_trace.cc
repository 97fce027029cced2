#include "lib/gpu/stream_trace.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "lib/engine/engine.h"

namespace tutti::detail {
namespace {

using algorithms::StreamStep;
using trace::Flags;

constexpr std::size_t most_events = 4096;
constexpr std::size_t most_steps = 512;  // of a call
constexpr int comparisons = 8;
constexpr std::chrono::milliseconds longest_clock_comparison{50};

/// Nanoseconds of CLOCK_MONOTONIC as ticks.
class Scale {
 public:
  explicit Scale(const trace::Moment& opened) : opened_(opened), now_(trace::moment()) {
    const std::int64_t span = now_.nanoseconds - opened.nanoseconds;
    if (trace::counts && span > 0) rate_ = static_cast<double>(now_.ticks - opened.ticks) / static_cast<double>(span);
  }
  std::int64_t ticks(double monotonic) const {
    return now_.ticks + static_cast<std::int64_t>((monotonic - static_cast<double>(now_.nanoseconds)) * rate_);
  }

 private:
  const trace::Moment opened_;
  const trace::Moment now_;
  double rate_ = 1;
};

cuda::Event take_last(std::vector<cuda::Event>& events) {
  const cuda::Event event = events.back();
  events.pop_back();
  return event;
}

bool has_happened(cuda::Event event, Clock::time_point end) {
  for (;;) {
    const cuda::Result result = cuda::driver().cuEventQuery.result(event);
    if (result != cuda::Result::not_ready) return result == cuda::Result::success;
    if (Clock::now() >= end) return false;
  }
}

}  // namespace

void StreamTrace::Call::begins(const transport::Frame& frame) noexcept {
  frame_ = frame;
  has_begun_ = true;
}

void StreamTrace::Call::leaves(bool is_worthless) noexcept {
  left_ = trace::monotonic();
  is_worthless_ = is_worthless;
  has_left_ = true;
}

void StreamTrace::enter(const cuda::KnownContext& context, bool is_idle) {
  if (places_.contains(context)) return;
  Place& place = places_[context];
  const cuda::Current current{context.get()};
  const cuda::KnowsOfCapture knows;
  for (std::size_t i = 0; i < most_events; ++i) {
    place.events.emplace_back(context.get(), cuda::OwnEvent::Kind::timed);
    place.unused.push_back(place.events.back().get());
  }
  if (is_idle) compare_clocks(context, place);
}

/// Looks several times, since a thread may lose its core, and the GPU may be busy.
void StreamTrace::compare_clocks(const cuda::KnownContext& context, Place& place) {
  const cuda::OwnStream stream{context.get()};
  cuda::Commands to{context.get(), stream.get()};
  const auto end = Clock::now() + longest_clock_comparison;
  for (int i = 0; i < comparisons; ++i) {
    const cuda::Event event = take_last(place.unused);
    const auto before = static_cast<double>(trace::monotonic());
    to.record(event);
    const bool is_known = has_happened(event, end);
    const auto after = static_cast<double>(trace::monotonic());
    const auto since = is_known && place.anchor ? cuda::milliseconds_between(place.anchor, event) : std::nullopt;
    if (!is_known || (place.anchor && !since)) return place.unused.push_back(event);
    place.anchored += since.value_or(0) * 1e6;
    place.clock.learn({place.anchored, place.anchored, before, after});
    if (cuda::Event const last = std::exchange(place.anchor, event)) place.unused.push_back(last);
  }
}

std::shared_ptr<StreamTrace::Call> StreamTrace::add(const cuda::KnownContext& context,
                                                    const algorithms::StreamCommands& commands,
                                                    const DeviceArithmetic& arithmetic) {
  const std::shared_ptr<Call> call = begin(context, 2);
  if (!call) return nullptr;
  const std::vector<StreamStep> steps = algorithms::steps_of(commands);
  choose(steps, *call, places_.at(context));
  for (std::size_t i = 0; i < call->steps_.size(); ++i)
    call->steps_[i].record = record_of(steps[i], commands, arithmetic);
  return call;
}

std::shared_ptr<StreamTrace::Call> StreamTrace::add_staged(const cuda::KnownContext& context, std::size_t input,
                                                           std::size_t output) {
  const std::shared_ptr<Call> call = begin(context, 4);
  if (!call) return nullptr;
  for (std::size_t i = 0; i < 4; ++i) call->marks_.push_back({i, take_last(places_.at(context).unused)});
  const auto copy = [&](std::size_t begin, std::size_t bytes, trace::Kind kind) {
    if (bytes > 0)
      call->steps_.push_back(
          {.begin = begin, .end = begin + 1, .record = {.bytes = bytes, .step = trace::no_step, .kind = kind}});
  };
  copy(0, input, trace::Kind::to_host);
  copy(2, output, trace::Kind::to_device);
  return call;
}

std::shared_ptr<StreamTrace::Call> StreamTrace::begin(const cuda::KnownContext& context, std::size_t least_events) {
  if (places_.at(context).unused.size() < least_events) {
    ++missed_;
    return nullptr;
  }
  const auto call = std::make_shared<Call>();
  call->context_ = context;
  call->missed_ = std::exchange(missed_, 0U);
  calls_.push_back(call);
  return call;
}

/// Marks the beginning of each step, the moment from which it need not wait, and the end of the last one.
void StreamTrace::choose(const std::vector<StreamStep>& steps, Call& call, Place& place) const {
  const auto mark = [&](std::size_t before) {
    call.marks_.push_back({before, take_last(place.unused)});
    return call.marks_.size() - 1;
  };
  for (const StreamStep& step : steps) {
    if (call.steps_.size() == most_steps || place.unused.size() < 4) break;
    Call::Timed timed{.begin = mark(step.begin)};
    if (step.waits && step.begin + 1 < step.end) timed.middle = mark(step.begin + 1);
    timed.end = call.marks_.size();  // where the next step begins
    if (step.waits && timed.middle == Call::none) timed.middle = timed.end;
    call.steps_.push_back(timed);
  }
  call.left_out_ = steps.size() - call.steps_.size();
  if (call.left_out_ > 0 || steps.empty()) mark(steps.empty() ? 0 : steps[call.steps_.size()].begin);
  mark(steps.empty() ? 0 : steps.back().end);
}

trace::Record StreamTrace::record_of(const StreamStep& step, const algorithms::StreamCommands& commands,
                                     const DeviceArithmetic& arithmetic) const {
  constexpr trace::Kind kinds[] = {trace::Kind::send,   trace::Kind::receive, trace::Kind::receive, trace::Kind::copy,
                                   trace::Kind::reduce, trace::Kind::send,    trace::Kind::receive};
  trace::Record record{.count = step.number,
                       .step = step.step,
                       .peer = step.peer < 0 ? -1 : owner_.members[static_cast<std::size_t>(step.peer)],
                       .kind = kinds[static_cast<std::size_t>(step.kind)],
                       .flags = Flags::on_stream};
  if (step.kind == StreamStep::Kind::receive_reduce) record.flags |= Flags::reduces;
  if (step.kind == StreamStep::Kind::send_credit || step.kind == StreamStep::Kind::receive_credit)
    record.flags |= Flags::credit;
  for (std::size_t i = step.begin; i < step.end; ++i) {
    const algorithms::StreamCommand& command = commands.all[i];
    if (command.outputs == 0) continue;
    const std::size_t element =
        step.is_message() ? arithmetic.sum_size : arithmetic.size_of_element_in(commands.outputs(command).front().area);
    record.bytes += command.elements * element;
  }
  return record;
}

void StreamTrace::collect() {
  std::vector<trace::Record> records;
  for (; !calls_.empty() && calls_.front()->is_complete(); calls_.pop_front()) read(*calls_.front(), records);
  if (records.empty()) return;
  owner_.engine->exclusively([&] {
    for (const trace::Record& record : records) owner_.recorder->add(record);
  });
}

/// Its last mark becomes the anchor, so that differences are short and thus exact.
void StreamTrace::read(const Call& call, std::vector<trace::Record>& records) {
  if (!call.context_.exists()) return;
  Place& place = places_.at(call.context_);
  const cuda::KnowsOfCapture knows;
  const cuda::Current current{call.context_.get()};
  const cuda::Event first = call.marks_.front().event;
  std::vector<double> times;
  std::optional<double> since = place.anchor ? cuda::milliseconds_between(place.anchor, first) : 0.0;
  for (std::size_t i = 0; since && i < call.marks_.size(); ++i) {
    const auto within = cuda::milliseconds_between(first, call.marks_[i].event);
    if (!within) break;
    times.push_back(place.anchored + (*since + *within) * 1e6);
  }
  const bool has_failed = times.size() < call.marks_.size();  // the GPU
  if (!has_failed) {
    place.anchored = times.back();
    if (cuda::Event const last = std::exchange(place.anchor, call.marks_.back().event)) place.unused.push_back(last);
  }
  for (const StreamMark& mark : call.marks_)
    if (mark.event != place.anchor) place.unused.push_back(mark.event);
  if (has_failed) return;
  place.clock.learn({times.front(), times.back(), static_cast<double>(call.entered_), static_cast<double>(call.left_)});

  const Scale scale{owner_.recorder->opened()};
  const auto ticks = [&](std::size_t mark) { return scale.ticks(place.clock.host_time(times[mark])); };
  const auto add = [&](trace::Record record, std::size_t begin, std::size_t middle, std::size_t end) {
    record.begin = ticks(begin);
    record.middle = middle == Call::none ? 0 : ticks(middle);
    record.end = ticks(end);
    record.operation = call.frame_.operation;
    record.group = owner_.group;
    record.collective = call.frame_.collective;
    record.type = call.frame_.data_type;
    record.op = call.frame_.op;
    if (call.is_worthless_) record.flags |= Flags::failed;
    records.push_back(record);
  };
  const std::size_t last = times.size() - 1;
  add({.bytes = static_cast<std::uint64_t>(place.clock.uncertainty()),
       .step = call.missed_,
       .kind = trace::Kind::stream},
      0, Call::none, last);
  for (const Call::Timed& step : call.steps_) add(step.record, step.begin, step.middle, step.end);
  if (call.left_out_ > 0) add({.count = call.left_out_, .kind = trace::Kind::left_out}, last - 1, Call::none, last);
}

}  // namespace tutti::detail
