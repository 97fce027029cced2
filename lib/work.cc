#include "tutti/work.h"

#include "lib/engine.h"
#include "lib/pending.h"

namespace tutti {

Work::~Work() {
  if (pending_) pending_->release();
}

void Work::wait() {
  if (!pending_) return;
  // The operation's own deadline bounds this wait: past it the engine fails the operation.
  while (!pending_->engine().wait(*pending_, detail::Clock::now() + std::chrono::hours{24})) {
  }
  pending_->depart_if_deserted();
  if (const Error* failure = pending_->error()) throw Error{*failure};
}

bool Work::wait_for(std::chrono::nanoseconds limit) {
  if (!pending_) return true;
  if (!pending_->engine().wait(*pending_, detail::deadline_after(limit))) return false;
  pending_->depart_if_deserted();
  if (const Error* failure = pending_->error()) throw Error{*failure};
  return true;
}

bool Work::done() const { return !pending_ || pending_->done(); }

const Error* Work::error() const { return pending_ ? pending_->error() : nullptr; }

MessageStatus Work::status() const { return pending_ && pending_->done() ? pending_->status : MessageStatus{}; }

void Work::then(std::function<void(const Error*)> next) {
  if (pending_) {
    pending_->then(std::move(next));
  } else {
    next(nullptr);
  }
}

}  // namespace tutti
