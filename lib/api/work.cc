#include "tutti/work.h"

#include <algorithm>
#include <string>

#include "lib/base/internals.h"
#include "lib/base/wait_hook.h"
#include "lib/engine/engine.h"
#include "lib/engine/pending.h"
#include "lib/gpu/device_stream.h"

namespace tutti {
namespace {

/// In a child of fork() the operations of the parent are over: nobody there will finish them.
const Error* lost_by_fork(const detail::Pending& pending) {
  if (pending.engine().is_own_process()) return nullptr;
  static const Error error = pending.engine().error_in_child();
  return &error;
}

/// Waits until the operation is over or until `limit`, and lets the program interrupt that. False: `limit` came first.
/// The operation's own deadline bounds this wait, too: past it the engine fails the operation.
bool wait_until_over(detail::Pending& pending, detail::Clock::time_point limit) {
  constexpr std::chrono::milliseconds time_to_end{900};  // for a program that goes on saying so
  detail::Engine& engine = pending.engine();
  while (!engine.wait(pending, next_question(limit))) {
    if (detail::Clock::now() >= limit) return false;
    if (!program_interrupts()) continue;
    pending.abort("interrupted");
    engine.wait(pending, deadline_after(time_to_end));
    while (!engine.wait(pending, next_question(deadline_after(std::chrono::hours{24}))))  // it has the caller's buffers
      if (program_interrupts())
        throw Error{ErrorCode::aborted, "interrupted by the program once more while the operation uses its buffers"};
    if (pending.error()) return true;
    throw Error{ErrorCode::aborted, "interrupted by the program while it waited"};  // it was done just then
  }
  return true;
}

/// The same without a limit.
void wait_until_over(detail::Pending& pending) {
  while (!wait_until_over(pending, deadline_after(std::chrono::hours{24}))) {
  }
}

}  // namespace

void Handle::drop() noexcept {
  detail::Pending* const pending = std::exchange(pending_, nullptr);
  if (!pending) return;
  if (pending->engine().is_own_process()) {
    pending->release();
  } else {
    keep_for_ever({pending, [](const auto*) {}});
  }
}

void Handle::wait() {
  if (pending_) pending_->engine().require_own_process();
  if (unwaited_) unwaited_ = false;  // of a Work never: several threads may wait for one
  if (!pending_) return;
  wait_until_over(*pending_);
  pending_->depart_if_abandoned();
  if (const Error* failure = pending_->error()) throw Error{*failure};
}

bool Handle::wait_for(std::chrono::nanoseconds limit) {
  if (pending_) {
    pending_->engine().require_own_process();
    if (!wait_until_over(*pending_, deadline_after(limit))) return false;
  }
  if (unwaited_) unwaited_ = false;
  if (!pending_) return true;
  pending_->depart_if_abandoned();
  if (const Error* failure = pending_->error()) throw Error{*failure};
  return true;
}

void Handle::wait_on(void* stream) {
  if (!pending_) return;
  pending_->engine().require_own_process();
  if (const Error* failure = pending_->error()) throw Error{*failure};
  const detail::Pending::OnDevice& call = pending_->on_device;
  if (call.capture != 0 ? !detail::is_in_its_capture(call) : pending_->done()) return;
  if (!call.context)
    throw Error{ErrorCode::invalid_argument,
                "wait_on: the call is on host memory, which no stream of a GPU can await: use wait()"};
  detail::order_streams(call, stream);
}

bool Handle::done() const { return !pending_ || pending_->done() || lost_by_fork(*pending_); }

const Error* Handle::error() const {
  if (!pending_) return nullptr;
  return pending_->done() ? pending_->error() : lost_by_fork(*pending_);
}

MessageStatus Handle::status() const { return pending_ && pending_->done() ? pending_->status : MessageStatus{}; }

void Handle::then(std::function<void(const Error*)> next) {
  if (!next) throw Error{ErrorCode::invalid_argument, "then: the function is empty"};
  if (!pending_) {
    next(nullptr);
  } else if (const Error* lost = lost_by_fork(*pending_)) {
    next(pending_->done() ? pending_->error() : lost);
  } else {
    pending_->then(std::move(next));
  }
}

namespace detail {

void tutti::detail::wait_all(std::span<Handle* const> handles) {
  for (Handle* const handle : handles)
    if (Pending* const pending = Internals::pending(*handle)) {
      pending->engine().require_own_process();
      wait_until_over(*pending);
    }
  for (Handle* const handle : handles) handle->wait();
}

std::size_t tutti::detail::wait_any(std::span<Handle* const> handles) {
  const auto refuse = [](const char* why) {
    throw Error{ErrorCode::invalid_argument, std::string{"wait_any: "} + why};
  };
  if (handles.empty()) refuse("there is nothing to wait for");
  std::vector<Pending*> pending;
  for (const Handle* const handle : handles) {
    pending.push_back(Internals::pending(*handle));
    if (pending.back()) pending.back()->engine().require_own_process();
    if (handle->done()) return pending.size() - 1;
    if (&pending.back()->engine() != &pending.front()->engine())
      refuse("these are of communicators that different calls of connect() have made");
  }
  Engine& engine = pending.front()->engine();
  while (!engine.wait_any(pending, next_question(deadline_after(std::chrono::hours{24})))) {
    if (!program_interrupts()) continue;
    for (Pending* const one : pending) one->abort("interrupted");
    for (Pending* const one : pending) wait_until_over(*one);
    throw Error{ErrorCode::aborted, "wait_any: interrupted by the program while it waited"};
  }
  const auto over = std::ranges::find_if(pending, [](const Pending* one) { return one->over(); });
  (*over)->depart_if_abandoned();
  return static_cast<std::size_t>(over - pending.begin());
}

}  // namespace detail
}  // namespace tutti
