#include "lib/message/message.h"

#include <fmt/format.h>

#include <utility>

#include "lib/group/context.h"
#include "lib/group/group.h"
#include "lib/message/messages.h"
#include "lib/observe/black_box_begin.h"
#include "tutti/options.h"

namespace tutti::detail {

void Message::prepare(Messages& messages, const MessageCall& call, std::shared_ptr<Pool<Message>> pool) {
  reset();
  static_cast<MessageCall&>(*this) = call;
  messages_ = &messages;
  belongs_to(messages.group());
  stage = Stage::begun;
  is_inline_ = has_begun_ = false;
  order = 0;
  arrived_ = 0;
  if (pool_ != pool) pool_ = std::move(pool);
}

void Message::begin_inline(black_box::Flight flight) noexcept {
  is_inline_ = has_begun_ = true;
  if (group().context().recorder) [[unlikely]]
    begun_ = trace::ticks();
  flight_ = flight;
}

void Message::start() noexcept {
  const auto now = Clock::now();
  begin_wait(now, timeout);
  if (has_begun_) return;
  note_start(now);
  messages_->start(*this);
}

void Message::note_start(Clock::time_point now) noexcept {
  if (group().context().recorder) [[unlikely]]
    begun_ = trace::ticks();
  black_box::Box* const box = group().context().black_box.get();
  flight_ = {};
  const Log& log = group().context().log;
  if (log.shows(Log::Level::trace, Log::Subsystem::p2p)) [[unlikely]]
    log.trace(Log::Subsystem::p2p, describe() + " begins");
  if (!box) return;
  black_box::CallRecord call = recorded(group().id());
  call.started = std::chrono::nanoseconds{now.time_since_epoch()}.count();
  flight_ = box->begin(call);
}

void Message::note_end(const Error* error) noexcept {
  if (trace::Recorder* const recorder = group().context().recorder.get()) [[unlikely]]
    record(*recorder, error != nullptr);
  if (is_inline_ && !error) {
    flight_.land_inline(0, bytes.size(), messages_->coarse_now());
  } else {
    if (!error) flight_.progress(0, bytes.size());
    flight_.land(error);
  }
  const Log& log = group().context().log;
  if (log.shows(Log::Level::trace, Log::Subsystem::p2p)) [[unlikely]]
    log.trace(Log::Subsystem::p2p, describe() + (error ? " fails" : " ends"));
}

void Message::note_arrived() noexcept { arrived_ = trace::ticks_after(); }

void Message::record(trace::Recorder& recorder, bool failed) const noexcept {
  if (kind == Kind::probe) return;  // a probe moves nothing
  const bool sends = kind == Kind::send;
  const int other = sends ? peer : order > 0 ? status.source : peer;
  const std::size_t length = sends || order == 0 ? bytes.size() : status.count * unit * size_of(type);
  recorder.add({.begin = begun_,
                .middle = arrived_,
                .end = trace::ticks_after(),
                .bytes = length,
                .count = failed ? 0 : order,
                .step = static_cast<std::uint32_t>(sends || order == 0 ? tag : status.tag),
                .peer = other >= 0 ? group().global_rank(other) : -1,
                .group = group().trace_index(),
                .kind = sends ? trace::Kind::message_send : trace::Kind::message_receive,
                .type = static_cast<std::uint8_t>(type),
                .flags = failed ? trace::Flags::failed : std::uint8_t{0}});
}

void Message::waits_long(WaitEscalation::Act act) noexcept {
  if (kind == Kind::probe && act != WaitEscalation::Act::ask) {
    // The answer is for the next probe, which may then hear that the rank has left.
    if (act == WaitEscalation::Act::demand) messages_->ask(*this, false);
    return messages_->probe_expired(*this);
  }
  if (act == WaitEscalation::Act::give_up) return messages_->give_up(*this);
  messages_->ask(*this, act == WaitEscalation::Act::demand);
}

std::string MessageCall::describe() const {
  const std::string elements = kind == Kind::probe ? "" : fmt::format(" of {} x {}", count, name_of(type));
  return fmt::format("{}{} {} {} (tag {})", name(), elements, kind == Kind::send ? "to" : "from",
                     peer == any_source ? "any rank" : fmt::format("rank {}", peer),
                     tag == any_tag ? "any" : std::to_string(tag));
}

void Message::recycle() noexcept {
  const auto pool = std::move(pool_);
  pool->give(std::unique_ptr<Message>{this});
}

}  // namespace tutti::detail
