// Calls that are made ready once: check, plan and binding lie before the first start, and a start is what is left.

#include "lib/persistent.h"

#include <fmt/format.h>

#include <utility>

#include "lib/base/fork_mark.h"
#include "lib/context.h"

namespace tutti {
namespace detail {
namespace {

Request kept(const Request& request, const Op& op, const std::string& algorithm) {
  Request own = request;
  own.op = request.op ? &op : nullptr;
  own.algorithm = algorithm;
  own.persistent = true;
  return own;
}

Collectives::Ready made_ready(Collectives& collectives, const Request& request) {
  auto ready = collectives.make_ready(request, collectives.plan(request), std::make_shared<Pool<Operation>>());
  ready.record.name = black_box::new_form_name();
  return ready;
}

}  // namespace

PersistentCall::PersistentCall(std::shared_ptr<CommunicatorState> state, const Request& request)
    : state_(std::move(state)),
      algorithm_(request.algorithm),
      op_(request.op ? *request.op : sum),
      request_(kept(request, op_, algorithm_)),
      ready_(made_ready(state_->group.collectives(), request_)),
      at_once_(state_->group.collectives().may_be_at_once(request_)) {}

bool PersistentCall::is_own_process() const { return state_->group.context().engine->is_own_process(); }

void PersistentCall::start(bool asynchronous) {
  Group& group = state_->group;
  Engine& engine = *group.context().engine;
  engine.require_own_process();
  if (started_)
    throw Error{ErrorCode::invalid_argument, fmt::format("{} on rank {} of {}: started again before wait()",
                                                         name_of(request_.collective), group.rank(), group.size())};
  if (ready_.planned.place.given() && !group.collectives().windows()->have(ready_.planned.place))
    throw Error{ErrorCode::invalid_argument,
                fmt::format("{} on rank {} of {}: the allocated memory that it was prepared for has been freed",
                            name_of(request_.collective), group.rank(), group.size())};
  if (asynchronous && !has_helper_) {
    engine.get_helper();
    has_helper_ = true;
  }
  if (at_once_ && !(asynchronous && group.context().oversubscribed)) {
    if (auto work = group.collectives().begin_at_once(ready_, asynchronous)) {
      work_ = std::move(*work);
      started_ = true;
      return;
    }
  }
  Operation& operation = group.collectives().make(ready_);
  operation.asynchronous = asynchronous;
  engine.submit(operation);
  work_ = Work{&operation};
  started_ = true;
}

void PersistentCall::wait() {
  state_->group.context().engine->require_own_process();
  if (!std::exchange(started_, false)) return;
  Work work = std::move(work_);  // once over, its operation is free for the next start
  work.wait();
}

}  // namespace detail

Persistent::Persistent(std::unique_ptr<detail::PersistentCall> call) noexcept : call_(std::move(call)) {}
Persistent::Persistent(Persistent&&) noexcept = default;
Persistent& Persistent::operator=(Persistent&& other) noexcept {
  Persistent old{std::move(other)};
  std::swap(call_, old.call_);
  return *this;
}
Persistent::~Persistent() {
  if (call_ && !call_->is_own_process()) keep_for_ever(std::shared_ptr<const void>{std::move(call_)});
}

void Persistent::start() { call_->start(true); }
void Persistent::wait() { call_->wait(); }
void Persistent::run() {
  call_->start(false);
  call_->wait();
}
bool Persistent::done() const { return call_->done(); }

}  // namespace tutti
