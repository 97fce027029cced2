#include "tutti/work.h"

#include "lib/engine.h"
#include "lib/pending.h"

namespace tutti {
namespace {

/// In a child of fork() the operations of the parent are over: nobody there will finish them.
const Error* lost_by_fork(const detail::Pending& pending) {
  if (pending.engine().is_own_process()) return nullptr;
  static const Error error = pending.engine().error_in_child();
  return &error;
}

}  // namespace

Work::~Work() {
  if (!pending_) return;
  if (pending_->engine().is_own_process()) {
    pending_->release();
  } else {
    keep_for_ever({pending_, [](const auto*) {}});
  }
}

void Work::wait() {
  if (!pending_) return;
  pending_->engine().require_own_process();
  // The operation's own deadline bounds this wait: past it the engine fails the operation.
  while (!pending_->engine().wait(*pending_, detail::Clock::now() + std::chrono::hours{24})) {
  }
  pending_->depart_if_deserted();
  if (const Error* failure = pending_->error()) throw Error{*failure};
}

bool Work::wait_for(std::chrono::nanoseconds limit) {
  if (!pending_) return true;
  pending_->engine().require_own_process();
  if (!pending_->engine().wait(*pending_, detail::deadline_after(limit))) return false;
  pending_->depart_if_deserted();
  if (const Error* failure = pending_->error()) throw Error{*failure};
  return true;
}

bool Work::done() const { return !pending_ || pending_->done() || lost_by_fork(*pending_); }

const Error* Work::error() const {
  if (!pending_) return nullptr;
  return pending_->done() ? pending_->error() : lost_by_fork(*pending_);
}

MessageStatus Work::status() const { return pending_ && pending_->done() ? pending_->status : MessageStatus{}; }

void Work::then(std::function<void(const Error*)> next) {
  if (!pending_) {
    next(nullptr);
  } else if (const Error* lost = lost_by_fork(*pending_)) {
    next(pending_->done() ? pending_->error() : lost);
  } else {
    pending_->then(std::move(next));
  }
}

}  // namespace tutti
