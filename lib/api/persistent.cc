// Prepared calls: check, plan and binding are done before the first start.

#include "lib/api/persistent.h"

#include <fmt/format.h>

#include <utility>

#include "lib/api/device_calls.h"
#include "lib/base/fork_mark.h"
#include "lib/base/internals.h"
#include "lib/group/context.h"

namespace tutti {
namespace detail {
namespace {

Request persistent(Request request) {
  request.persistent = true;
  return request;
}

InlineCalls* inline_calls_for(Collectives& collectives, const Request& request) {
  InlineCalls* const inline_calls = collectives.inline_calls();
  return inline_calls && inline_calls->may_do(request) ? inline_calls : nullptr;
}

}  // namespace

DeviceRequest::DeviceRequest(const Request& of, OnStream stream)
    : op(of.op ? *of.op : sum),
      algorithm(of.algorithm),
      counts(of.counts.begin(), of.counts.end()),
      recv_counts(of.recv_counts.begin(), of.recv_counts.end()),
      displacements(of.displacements.begin(), of.displacements.end()),
      recv_displacements(of.recv_displacements.begin(), of.recv_displacements.end()),
      on(stream),
      request([&] {
        Request own = of;
        if (of.op) own.op = &op;
        own.algorithm = algorithm;
        own.counts = counts;
        own.recv_counts = recv_counts;
        own.displacements = displacements;
        own.recv_displacements = recv_displacements;
        return own;
      }()) {}

PersistentCall::PersistentCall(std::shared_ptr<CommunicatorState> state, const Request& request)
    : state_(std::move(state)),
      parts_(request.variable ? std::make_shared<OwnParts>(request, state_->group.rank()) : nullptr),
      inline_calls_(inline_calls_for(state_->collectives, parts_ ? parts_->request() : request)) {
  state_->collectives.prepare(call_, persistent(parts_ ? parts_->request() : request),
                              std::make_shared<Pool<Operation>>());
  call_->record.name = black_box::new_form_name();
}

PersistentCall::PersistentCall(std::shared_ptr<CommunicatorState> state, const Request& request, OnStream on)
    : state_(std::move(state)), device_(std::make_unique<const DeviceRequest>(request, on)), inline_calls_(nullptr) {
  (void)state_->collectives.plan(device_->request);  // throws for an algorithm that cannot serve
}

bool PersistentCall::is_own_process() const { return state_->group.context().engine->is_own_process(); }
void PersistentCall::require_own_process() const { state_->group.context().engine->require_own_process(); }

void PersistentCall::refuse_start(const char* why) const {
  const Group& group = state_->group;
  throw Error{ErrorCode::invalid_argument,
              fmt::format("{} on rank {} of {}: {}", name_of(request().collective), group.rank(), group.size(), why)};
}

Work PersistentCall::start(bool asynchronous) {
  if (device_) {
    auto comm = Internals::make<Communicator>(state_);
    return call_on_device(comm, state_, device_->request, device_->on, asynchronous);
  }
  Group& group = state_->group;
  Engine& engine = *group.context().engine;
  if (call_->planned.location.given() && !state_->collectives.windows()->have(call_->planned.location))
    refuse_start("the allocated memory that it was prepared for has been freed");
  call_->board.begin_again();
  if (asynchronous && !has_helper_) {
    engine.get_helper();
    has_helper_ = true;
  }
  if (inline_calls_ && !(asynchronous && group.context().oversubscribed))
    if (auto work = inline_calls_->begin(*call_, asynchronous)) return std::move(*work);
  if (!asynchronous) engine.require_other_owner();
  const bool moves_parts = parts_ && parts_->are_moved();
  if (moves_parts) parts_->collect_input();
  Operation& operation = state_->collectives.make(*call_);
  if (moves_parts) operation.before_done([parts = parts_] { parts->spread_output(); });
  operation.asynchronous = asynchronous;
  engine.submit(operation);
  return Internals::make<Work>(&operation);
}

}  // namespace detail

Persistent::Persistent(std::unique_ptr<detail::PersistentCall> call) noexcept : call_(std::move(call)) {}
Persistent::Persistent(Persistent&&) noexcept = default;
Persistent& Persistent::operator=(Persistent&& other) noexcept {
  Persistent old{std::move(other)};
  Handle::operator=(std::move(static_cast<Handle&>(old)));
  std::swap(call_, old.call_);
  return *this;
}
Persistent::~Persistent() {
  drop();  // before the call that it belongs to
  if (call_ && !call_->is_own_process()) keep_for_ever(std::shared_ptr<const void>{std::move(call_)});
}

detail::PersistentCall& Persistent::call(const char* name) const {
  if (!call_) [[unlikely]]
    throw Error{ErrorCode::invalid_argument,
                fmt::format("{}: this prepared call was moved from: use the one that it was moved to", name)};
  return *call_;
}

void Persistent::begin(bool asynchronous) {
  detail::PersistentCall& own = call(asynchronous ? "start" : "run");
  own.require_own_process();
  if (detail::Internals::unwaited(*this)) own.refuse_start("started again before wait()");
  drop();  // its operation serves the next start
  Handle::operator=(own.start(asynchronous));
  detail::Internals::unwaited(*this) = true;
}

void Persistent::start() { begin(true); }
void Persistent::run() {
  begin(false);
  wait();
}

}  // namespace tutti
