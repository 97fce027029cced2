#include "lib/engine/engine.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>

#include "lib/collective/operation.h"
#include "lib/engine/short_wait.h"

namespace tutti::detail {
namespace {

using std::chrono::microseconds;

constexpr int busy_passes_per_look = 256;  // of one that has something to do
constexpr unsigned calls_per_pass = 16;    // done at once, beside asynchronous work
// The helper takes over when nobody drove for the first of these. Each look that finds somebody at work doubles the
// time to the next, up to the second, and one that finds nobody halves it: to look takes a core from who drives
// (send/recv of 4 MiB between 2 ranks: 452 us with looks every 200 us, 410 without).
constexpr microseconds helper_interval{200}, longest_helper_interval{1600};
constexpr int most_quiet_looks = 10;  // without a new call: then it must be called, which costs each call more

}  // namespace

Engine::Engine(Patience patience) : patience_(patience), usual_patience_(patience) {}

Engine::~Engine() {
  stop();
  transports_.clear();
}

void Engine::add(std::unique_ptr<transport::Transport> transport) {
  transport->set_sink(*this);
  transports_.push_back(std::move(transport));
}

// ---- Who drives ----------------------------------------------------------------------------------------------

Error Engine::error_in_child() const {
  return Error{ErrorCode::invalid_argument,
               fmt::format("a communicator belongs to the process that made it, {}; this one, {}, is a child of fork() "
                           "and has neither its threads nor a place among its ranks. Call it there, or exec a program "
                           "that connects by itself",
                           mark_.process(), ::getpid())};
}

void Engine::get_helper() {
  const std::lock_guard lock{mutex_};
  if (helper_.joinable()) return;
  try {
    helper_ = std::thread{[this] { help(); }};
  } catch (const std::system_error& error) {
    throw Error{ErrorCode::system, std::string("cannot start the thread that asynchronous calls need: ") +
                                       error.what() + "; raise `ulimit -u`, or use the calls that wait"};
  }
}

void Engine::submit(Pending& pending) {
  take(pending);
  std::unique_lock lock{mutex_};
  if (!own_or_ask()) {
    inbox_.push(&pending);
    inbox_full_.store(true, std::memory_order_release);
    lock.unlock();
    reactor_.interrupt();
    return;
  }
  lock.unlock();
  begin(pending);
  lock.lock();
  leave(lock);
}

/// Under the mutex. False: the owner will look at what this thread leaves for it before it goes.
bool Engine::own_or_ask() noexcept {
  while (!try_own())
    if (ask_owner()) return false;
  return true;
}

/// Under the mutex. False: there is none.
bool Engine::ask_owner() noexcept {
  unsigned now = ownership_.load(std::memory_order_relaxed);
  while (now != 0)
    if (ownership_.compare_exchange_weak(now, owned | wanted, std::memory_order_relaxed)) return true;
  return false;
}

/// Others want it, or its passes.
void Engine::disown_to(bool others_wait) noexcept {
  // Calls that are done at once are not all that there is to do.
  if (others_wait && ++disowned_ % calls_per_pass == 0) {
    progress();
    if (++passes_since_look_ >= passes_per_look) look();
  }
  std::unique_lock lock{mutex_};
  leave(lock);
}

void Engine::submit_and_disown(Pending& pending) {
  take(pending);
  begin(pending);
  disown();
}

bool Engine::wait(const Pending& pending, Clock::time_point until) {
  return wait_until([&pending] { return pending.over(); }, until);
}

void Engine::wait_any(std::span<const Pending* const> pending) {
  const auto one_is_over = [pending] { return std::ranges::any_of(pending, &Pending::over); };
  while (!wait_until(one_is_over, Clock::now() + std::chrono::hours{24})) {
  }
}

template <class Done>
bool Engine::wait_until(const Done& done, Clock::time_point until) {
  if (done()) return true;
  std::unique_lock lock{mutex_};
  while (!done()) {
    if (own_or_ask()) {
      lock.unlock();
      drive(done, until);
      lock.lock();
      leave(lock);
    } else {
      waiting_threads_.fetch_add(1);
      reactor_.interrupt();  // the helper leaves, a waiting caller looks at its inbox and sleeps again
      changed_.wait_until(lock, until, [&] { return done() || !ask_owner(); });
      waiting_threads_.fetch_sub(1);
    }
    if (Clock::now() >= until) return done();
  }
  return true;
}

bool Engine::exclusively(const std::function<void()>& task, Clock::time_point until) {
  std::unique_lock lock{mutex_};
  if (own_or_ask()) {
    run_alone(lock, task);
    return true;
  }
  const auto entry = std::make_shared<Task>(Task{task});
  tasks_.push_back(entry);
  inbox_full_.store(true, std::memory_order_release);
  waiting_threads_.fetch_add(1);
  reactor_.interrupt();
  // The owner runs its inbox between two passes and before it leaves, so this wait is as short as a pass, unless a
  // user's function is on its stack.
  const auto done = [&entry] { return entry->done; };
  const bool in_time = until != Clock::time_point::max() && changed_.wait_until(lock, until, done);
  if (!in_time && (until == Clock::time_point::max() || entry->begun)) changed_.wait(lock, done);
  if (!entry->done) std::erase(tasks_, entry);
  waiting_threads_.fetch_sub(1);
  return entry->done;
}

void Engine::post(std::function<void()> task) {
  std::unique_lock lock{mutex_};
  if (own_or_ask()) return run_alone(lock, task);
  tasks_.push_back(std::make_shared<Task>(Task{std::move(task)}));
  inbox_full_.store(true, std::memory_order_release);
  reactor_.interrupt();
}

void Engine::run_alone(std::unique_lock<std::mutex>& lock, const std::function<void()>& task) {
  lock.unlock();
  task();
  clean_up_failures();
  lock.lock();
  leave(lock);
}

void Engine::leave(std::unique_lock<std::mutex>& lock) noexcept {
  while (!inbox_.empty() || !tasks_.empty()) {
    lock.unlock();
    drain_inbox();
    lock.lock();
  }
  ownership_.store(0, std::memory_order_release);
  if (waiting_threads_.load() > 0) changed_.notify_all();
  if (asynchronous_.load() > 0 && !helper_looks_) helper_wanted_.notify_one();
}

void Engine::drain_inbox() noexcept {
  std::unique_lock lock{mutex_};
  inbox_full_.store(false, std::memory_order_release);
  while (!inbox_.empty()) {
    Pending* const pending = inbox_.pop();  // in order: operations of one communicator are numbered
    lock.unlock();
    begin(*pending);
    lock.lock();
  }
  while (!tasks_.empty()) {
    const auto task = tasks_.front();
    tasks_.pop_front();
    task->begun = true;
    lock.unlock();
    task->run();
    clean_up_failures();
    lock.lock();
    task->done = true;
    changed_.notify_all();
  }
}

void Engine::help() {
  std::unique_lock lock{mutex_};
  microseconds interval = helper_interval;
  for (int quiet = most_quiet_looks; !stopping_; ++quiet) {
    helper_looks_ = quiet < most_quiet_looks;
    // While somebody owns the engine there is nothing to do: leave() calls.
    if (!helper_looks_) {
      interval = helper_interval;
      helper_wanted_.wait(lock, [this] { return stopping_ || (asynchronous_.load() > 0 && ownership_.load() == 0); });
    }
    const std::uint64_t seen = passes_.load();
    const std::uint64_t begun = begun_asynchronous_.load();
    helper_wanted_.wait_for(lock, interval, [this] { return stopping_.load(); });
    if (!helper_looks_ || begun_asynchronous_.load() != begun) quiet = 0;
    const bool at_work = ownership_.load() != 0 || waiting_threads_.load() > 0;
    interval = at_work ? std::min(2 * interval, longest_helper_interval) : std::max(interval / 2, helper_interval);
    if (stopping_ || at_work || asynchronous_.load() == 0 || passes_.load() != seen || !try_own()) continue;
    lock.unlock();
    drive([this] { return asynchronous_.load() == 0 || waiting_threads_.load() > 0 || stopping_; },
          Clock::time_point::max());
    lock.lock();
    leave(lock);
  }
}

void Engine::stop() noexcept {
  {
    const std::lock_guard lock{mutex_};
    stopping_ = true;
    helper_wanted_.notify_one();
  }
  reactor_.interrupt();
  if (helper_.joinable()) helper_.join();
}

// ---- Driving ---------------------------------------------------------------------------------------------------

template <class Done>
void Engine::drive(Done&& done, Clock::time_point until) noexcept {
  passes_.fetch_add(1, std::memory_order_relaxed);
  if (recorder_) [[unlikely]]
    looked_ = trace::ticks();
  for (int passes = 0; !done();) {
    if (inbox_full_.load(std::memory_order_acquire)) drain_inbox();
    const bool moved = progress();
    if (recorder_) [[unlikely]]
      note_presence();
    if (++passes_since_look_ >= busy_passes_per_look) {
      look();
      if (Clock::now() >= until) return;
    }
    if (finished_any_) {
      finished_any_ = false;
      if (waiting_threads_.load() > 0) {
        const std::lock_guard lock{mutex_};
        changed_.notify_all();
      }
    }
    if (moved) {
      passes = 0;
    } else if (!done()) {
      idle(++passes, until);
      if (passes % passes_per_look == 0 && Clock::now() >= until) return;
      if (passes > patience_.spins + patience_.yields && Clock::now() >= until) return;
    }
  }
}

bool Engine::progress() noexcept {
  bool moved = !ready_.empty();
  for (const auto& transport : transports_) moved |= transport->progress();
  for (std::size_t i = 0; i < polled_.size(); ++i) moved |= polled_[i]->progress();  // may add some
  std::erase_if(polled_, [](const Pollable* pollable) { return pollable->idle(); });
  run_ready();
  clean_up_failures();
  return moved;
}

void Engine::run_ready() noexcept {
  while (!ready_.empty()) {
    const ReadyStep next = ready_.pop();
    if (next.operation) next.operation->run(next.step);
  }
}

void Engine::note_presence() noexcept {
  const std::int64_t now = trace::ticks();
  if (now - looked_ >= trace::long_absence) recorder_->add({.begin = looked_, .end = now, .kind = trace::Kind::away});
  looked_ = now;
}

/// What must not starve, however busy the links are.
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
  bool nothing_to_do = failing_.empty();
  for (const auto& transport : transports_) nothing_to_do &= transport->prepare_sleep();
  for (Pollable* const pollable : polled_) nothing_to_do &= pollable->prepare_sleep();
  const std::int64_t begin = recorder_ && nothing_to_do && !deadlines_.empty() ? trace::ticks() : 0;
  nothing_to_do ? reactor_.sleep(until) : static_cast<void>(reactor_.poll());
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
    due.expire();  // may say when to look again
    if (deadlines_.first() == at && &deadlines_.front() == &due) deadlines_.set(due, Deadlines::never);
  }
  return deadlines_.first();
}

// ---- Operations ------------------------------------------------------------------------------------------------

void Engine::begin(Pending& pending) noexcept {
  if (recorder_) [[unlikely]]
    looked_ = trace::ticks();
  deadlines_.add(pending);
  pending.start();
  run_ready();
  if (recorder_) [[unlikely]]
    note_presence();
  clean_up_failures();
}

void Engine::poll(Pollable& pollable) {
  if (std::ranges::count(polled_, &pollable) == 0) polled_.push_back(&pollable);
}

void Engine::finished(Pending& pending, const Error* error) noexcept {
  deadlines_.remove(pending);
  if (pending.asynchronous) asynchronous_.fetch_sub(1);
  if (!std::exchange(finished_any_, true)) patience_ = usual_patience_;
  pending.finish(error);
  pending.release();
}

void Engine::forget(Operation& operation) {
  for (std::size_t i = 0; i < ready_.size(); ++i)
    if (ready_[i].operation == &operation) ready_[i].operation = nullptr;
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
