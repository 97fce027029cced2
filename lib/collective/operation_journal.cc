#include "lib/collective/operation_journal.h"

#include <fmt/format.h>

#include <chrono>
#include <string>

#include "lib/collective/operation.h"
#include "lib/group/context.h"
#include "lib/group/group.h"
#include "lib/observe/black_box_begin.h"

namespace tutti::detail {

void OperationJournal::prepare() {
  const Context& context = operation_.group().context();
  log_ = context.log.shows(Log::Level::trace, Log::Subsystem::coll) ? &context.log : nullptr;
  trace_.prepare(context.recorder.get(), operation_.board() ? 0 : operation_.plan().steps.size());
}

void OperationJournal::begin(Clock::time_point now) noexcept {
  if (log_) [[unlikely]]
    log_->trace(Log::Subsystem::coll, operation_.describe() + " begins");
  if (trace_.is_wanted()) [[unlikely]]
    trace_.begin(operation_.has_begun() ? begun_ : trace::ticks());
  black_box::Box* const box = operation_.group().context().black_box.get();
  if (!box || operation_.has_begun()) return;
  const transport::Frame& frame = operation_.frame();
  black_box::CallRecord call =
      recorded(frame, operation_.group().id(), operation_.number(), operation_.prepared().label,
               operation_.progress().all, frame.variable, operation_.board() != nullptr);
  call.started = std::chrono::nanoseconds{now.time_since_epoch()}.count();
  flight_ = box->begin(call);
}

void OperationJournal::end(const Error* error, std::uint64_t bytes) noexcept {
  if (trace_.is_wanted()) [[unlikely]]
    trace_.end(error != nullptr);
  flight_.land(error);
  if (!log_) [[likely]]
    return;
  const Operation::Progress parts = operation_.progress();
  log_->trace(Log::Subsystem::coll,
              error ? std::string{"fails: "} + error->what()
                    : fmt::format("{} ends: {} {}{}, {} bytes", operation_.describe(), parts.all,
                                  parts.in_rounds ? "round" : "step", parts.all == 1 ? "" : "s", bytes));
}

}  // namespace tutti::detail
