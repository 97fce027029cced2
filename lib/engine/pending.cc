#include "lib/engine/pending.h"

#include <utility>

#include "lib/engine/engine.h"

namespace tutti::detail {

Pending::Pending(std::shared_ptr<Engine> engine) : engine_(std::move(engine)) {}

Pending::~Pending() = default;

void Pending::release() noexcept {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) recycle();
}

void Pending::reset() noexcept {
  references_.store(1, std::memory_order_relaxed);
  state_.store(State::running, std::memory_order_relaxed);
  has_continuations_.store(false, std::memory_order_relaxed);
  error_.reset();
  on_device = {};
  status = {};
  asynchronous = false;
}

void Pending::finish(const Error* error) noexcept {
  if (error) error_.emplace(*error);
  if (completion_) [[unlikely]]
    if (const auto completion = std::exchange(completion_, nullptr); !error) completion();
  // Sequentially consistent on purpose, here and in then(): one thread sets "done" and the other "has continuations",
  // and at least one of them must see the other's. Otherwise a continuation that is added at this moment would never
  // run.
  state_.store(State::done);
  if (has_continuations_.load()) run_continuations();
}

void Pending::abandon(std::function<void()> departure) noexcept {
  departure_ = std::move(departure);
  state_.store(State::abandoned, std::memory_order_release);
  engine_->left();
}

void Pending::then(std::function<void(const Error*)> next) {
  {
    const std::lock_guard lock{continuations_mutex_};
    continuations_.push_back(std::move(next));
  }
  has_continuations_.store(true);
  if (state_.load() == State::done) run_continuations();
}

void Pending::run_continuations() noexcept {
  std::vector<std::function<void(const Error*)>> due;
  {
    const std::lock_guard lock{continuations_mutex_};
    due.swap(continuations_);
  }
  for (const auto& next : due) next(error());
}

}  // namespace tutti::detail
