#include "lib/engine/engine.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "lib/engine/short_wait.h"
#include "transport/sleep.h"

namespace tutti::detail {
namespace {

constexpr int busy_passes_per_look = 256;  // looks of a driver that has something to do
constexpr int busy_passes_per_clock = 8;   // each may copy much
constexpr unsigned calls_per_pass = 16;    // inline calls per pass, while asynchronous work needs passes too

}  // namespace

Engine::Engine(Patience patience) : patience_(patience), usual_patience_(patience) {}

Engine::~Engine() {
  stop();
  transports_.clear();
}

void Engine::stop() noexcept {
  helper_.stop();
  exclusively([this] { deadlines_.engine_stops(); });
}

void Engine::add(std::unique_ptr<transport::Transport> transport) {
  transport->set_sink(channels_);
  transports_.push_back(std::move(transport));
}

// ---- Choosing the driver --------------------------------------------------------------------------------------

Error Engine::error_in_child() const {
  return Error{ErrorCode::invalid_argument,
               fmt::format("a communicator belongs to the process that made it, {}; this one, {}, is a child of fork() "
                           "and has neither its threads nor a place among its ranks. Call it there, or connect anew "
                           "here",
                           mark_.process(), ::getpid())};
}

void Engine::require_other_owner() const {
  if (!is_owned_here()) return;
  throw Error{ErrorCode::invalid_argument,
              "a function given to then(), or an op, has made a call that waits, on the thread that would have to end "
              "this wait. Make the call when the function has returned, or in another thread"};
}

void Engine::submit(Pending& pending) {
  take(pending);
  Ownership::Lock lock = ownership_.lock();
  if (!ownership_.own_or_ask()) return ownership_.leave_for_owner(lock, pending);
  lock.unlock();
  begin(pending);
  lock.lock();
  leave(lock);
}

/// Gives up the engine, which other threads wait for, or whose passes asynchronous work needs.
void Engine::disown_to(bool others_wait) noexcept {
  // A series of inline calls must not keep other work from its passes.
  if (others_wait && ++disowned_ % calls_per_pass == 0) {
    progress();
    if (++passes_since_look_ >= passes_per_look) look();
  }
  Ownership::Lock lock = ownership_.lock();
  leave(lock);
}

void Engine::submit_owned(Pending& pending) {
  take(pending);
  begin(pending);
}

void Engine::submit_and_disown(Pending& pending) {
  submit_owned(pending);
  disown();
}

bool Engine::wait(const Pending& pending, Clock::time_point until) {
  return wait_until([&pending] { return pending.over(); }, until);
}

bool Engine::wait_any(std::span<Pending* const> pending, Clock::time_point until) {
  return wait_until([pending] { return std::ranges::any_of(pending, &Pending::over); }, until);
}

void Engine::drive_until(Clock::time_point until) {
  wait_until([] { return false; }, until);
}

template <class Done>
bool Engine::wait_until(const Done& done, Clock::time_point until) {
  if (done()) return true;
  if (is_owned_here() && Clock::now() >= until) return false;
  require_other_owner();
  Ownership::Lock lock = ownership_.lock();
  while (!done()) {
    if (ownership_.own_or_ask()) {
      lock.unlock();
      drive(done, until);
      lock.lock();
      leave(lock);
    } else {
      ownership_.wait_for_owner(lock, done, until);
    }
    if (Clock::now() >= until) return done();
  }
  return true;
}

bool Engine::exclusively(const std::function<void()>& task, Clock::time_point until) {
  if (is_owned_here() && until != Clock::time_point::max()) return false;
  require_other_owner();
  Ownership::Lock lock = ownership_.lock();
  if (!ownership_.own_or_ask()) return ownership_.run_by_owner(lock, task, until);
  run_alone(lock, task);
  return true;
}

void Engine::post(std::function<void()> task) {
  Ownership::Lock lock = ownership_.lock();
  if (!ownership_.own_or_ask()) return ownership_.leave_for_owner(lock, std::move(task));
  run_alone(lock, task);
}

/// Leaves also if the task throws, std::bad_alloc for example: else nobody could own the engine any more, nor look at a
/// deadline.
void Engine::run_alone(Ownership::Lock& lock, const std::function<void()>& task) {
  struct Leaving {
    ~Leaving() {
      lock.lock();
      engine.leave(lock);
    }
    Engine& engine;
    Ownership::Lock& lock;
  };
  lock.unlock();
  const Leaving leaving{*this, lock};
  run_task(task);
}

void Engine::run_task(const std::function<void()>& task) {
  task();
  clean_up_failures();
}

void Engine::leave(Ownership::Lock& lock) noexcept {
  while (ownership_.has_mail()) {
    lock.unlock();
    take_mail();
    lock.lock();
  }
  ownership_.leave();
  helper_.note_left();
}

void Engine::take_mail() noexcept {
  ownership_.take_mail([this](Pending& pending) { begin(pending); },
                       [this](const std::function<void()>& task) { run_task(task); });
}

void Engine::drive_as_helper() noexcept {
  drive([this] { return !helper_.is_needed(); }, Clock::time_point::max());
  Ownership::Lock lock = ownership_.lock();
  leave(lock);
}

// ---- Driving ---------------------------------------------------------------------------------------------------

template <class Done>
void Engine::drive(Done&& done, Clock::time_point until) noexcept {
  helper_.note_driver();
  if (recorder_) [[unlikely]]
    looked_ = trace::ticks();
  for (int passes = 0; !done();) {
    if (ownership_.may_have_mail()) take_mail();
    const bool moved = progress();
    if (recorder_) [[unlikely]]
      note_presence();
    if (++passes_since_look_ >= busy_passes_per_look) {
      look();
      if (Clock::now() >= until) return;
    }
    if (finished_any_) {
      finished_any_ = false;
      ownership_.tell_waiting_threads();
    }
    if (moved) {
      passes = 0;
      if (passes_since_look_ % busy_passes_per_clock == 0 && Clock::now() >= until) return;
    } else if (!done()) {
      // A pause is short. To yield the core, or to sleep, may take long, and so may the passes between such pauses.
      if (passes >= patience_.spins && Clock::now() >= until) return;
      idle(++passes, until);
      if (passes % passes_per_look == 0 && Clock::now() >= until) return;
    }
  }
}

bool Engine::progress() noexcept {
  bool moved = !steps_.empty();
  for (const auto& transport : transports_) moved |= transport->progress();
  for (std::size_t i = 0; i < polled_.size(); ++i) moved |= polled_[i]->progress();  // may add more
  std::erase_if(polled_, [](const Pollable* pollable) { return pollable->idle(); });
  steps_.next_pass();
  steps_.run(run_step);
  clean_up_failures();
  return moved;
}

void Engine::note_presence() noexcept {
  const std::int64_t now = trace::ticks();
  if (now - looked_ >= trace::long_absence) recorder_->add({.begin = looked_, .end = now, .kind = trace::Kind::away});
  looked_ = now;
}

/// Does what must not starve while links are busy.
void Engine::look() noexcept {
  passes_since_look_ = 0;
  reactor_.poll();
  expire_overdue();
}

void Engine::idle(int passes, Clock::time_point until) noexcept {
  if (passes % passes_per_look == 0) look();
  if (passes <= patience_.spins) {
    pause_briefly();
  } else if (passes <= patience_.spins + patience_.yields) {
    sched_yield();
  } else {
    sleep(until);
  }
}

void Engine::sleep(Clock::time_point until) noexcept {
  until = std::min(until, expire_overdue());
  std::int64_t begin = 0;
  transport::sleep_until_woken(reactor_, until, [this, &begin] {
    bool nothing_to_do = failing_.empty() && steps_.empty() && !finished_any_;
    for (const auto& transport : transports_) nothing_to_do &= transport->prepare_sleep();
    for (Pollable* const pollable : polled_) nothing_to_do &= pollable->prepare_sleep();
    if (begin == 0 && recorder_ && nothing_to_do && !deadlines_.empty()) [[unlikely]]
      begin = trace::ticks();
    return nothing_to_do;
  });
  if (recorder_) [[unlikely]]
    looked_ = trace::ticks_after();
  if (begin) [[unlikely]]
    recorder_->add({.begin = begin, .end = looked_, .kind = trace::Kind::sleep});
  for (const auto& transport : transports_) transport->awake();
  for (Pollable* const pollable : polled_) pollable->awake();
}

Clock::time_point Engine::expire_overdue() noexcept {
  const auto now = Clock::now();
  while (deadlines_.first() <= now) {
    Pending& due = deadlines_.front();
    const auto at = deadlines_.first();
    due.expire();  // may set a new time
    if (deadlines_.first() == at && &deadlines_.front() == &due) deadlines_.set(due, Deadlines::never);
  }
  return deadlines_.first();
}

void Engine::detach(transport::Channel channel, const Error* reason, Clock::time_point deadline) noexcept {
  for (const auto& transport : transports_) {
    if (reason) {
      transport->abort_channel(channel, *reason);
    } else {
      transport->close_channel(channel, deadline);
    }
  }
  channels_.detach(channel);
}

void Engine::abort_channel(transport::Channel channel, const Error& reason) noexcept {
  for (const auto& transport : transports_) transport->abort_channel(channel, reason);
}

// ---- Operations ------------------------------------------------------------------------------------------------

void Engine::begin(Pending& pending) noexcept {
  if (recorder_) [[unlikely]]
    looked_ = trace::ticks();
  deadlines_.add(pending);
  pending.start();
  steps_.run(run_step);
  if (recorder_) [[unlikely]]
    note_presence();
  clean_up_failures();
}

void Engine::poll(Pollable& pollable) {
  if (std::ranges::count(polled_, &pollable) == 0) polled_.push_back(&pollable);
}

void Engine::finished(Pending& pending, const Error* error) noexcept {
  deadlines_.remove(pending);
  if (pending.asynchronous) helper_.work_ends();
  if (!std::exchange(finished_any_, true)) patience_ = usual_patience_;
  pending.finish(error);
  pending.release();
}

void Engine::forget(Failable& failed) {
  for (std::size_t i = 0; i < failing_.size(); ++i)
    if (failing_[i] == &failed) failing_[i] = nullptr;
}

void Engine::clean_up_failures() noexcept {
  while (!failing_.empty())
    if (Failable* failed = failing_.pop()) failed->fail_now();
}

}  // namespace tutti::detail
