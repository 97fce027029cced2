#include "lib/group/group_call.h"

#include "lib/base/clocks.h"
#include "lib/group/context.h"
#include "lib/group/group.h"

namespace tutti::detail {

void GroupCall::begin_wait(Clock::time_point now, std::chrono::milliseconds timeout) noexcept {
  escalation_.begin(now, deadline_after(timeout), group_->context().failure_router->is_watched());
  engine_->look_at(*this, escalation_.next());
}

void GroupCall::expire() noexcept {
  if (group_->failing()) return;
  const WaitEscalation::Act act = escalation_.act(Clock::now());
  engine_->look_at(*this, escalation_.next());
  waits_long(act);
}

void GroupCall::departed(std::span<const int> ranks) noexcept {
  if (!group_->has_any_of(ranks)) return;
  escalation_.hasten(Clock::now());
  engine_->look_at(*this, escalation_.next());
}

void GroupCall::abort(std::string_view reason) noexcept { group_->abort(reason); }

}  // namespace tutti::detail
