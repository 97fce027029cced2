#include "lib/engine.h"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "lib/operation.h"

namespace tutti::detail {
namespace {

using std::chrono::microseconds;

constexpr int passes_per_poll = 64;           // how often an idle driver looks at descriptors that are not hot
constexpr int passes_per_clock = 64;          // and at the clock
constexpr microseconds helper_interval{200};  // the helper takes over when nobody drove for this long
constexpr int helper_patience = 100;          // intervals without asynchronous work before it goes to sleep

void pause_briefly() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

Engine::Engine(Patience patience) : patience_(patience) {}

Engine::~Engine() {
  stop();
  transports_.clear();
}

void Engine::add(std::unique_ptr<transport::Transport> transport) {
  transport->set_sink(*this);
  transports_.push_back(std::move(transport));
}

// ---- Who drives ----------------------------------------------------------------------------------------------

void Engine::submit(Pending& pending) {
  pending.retain();
  if (pending.asynchronous) asynchronous_.fetch_add(1);
  std::unique_lock lock{mutex_};
  if (pending.asynchronous && !helper_.joinable()) helper_ = std::thread{[this] { help(); }};
  if (owned_) {
    inbox_.push_back(&pending);
    inbox_full_.store(true, std::memory_order_release);
    lock.unlock();
    reactor_.interrupt();
    return;
  }
  owned_ = true;
  lock.unlock();
  begin(pending);
  lock.lock();
  leave(lock);
}

bool Engine::wait(Pending& pending, Clock::time_point until) {
  if (pending.over()) return true;
  std::unique_lock lock{mutex_};
  while (!pending.over()) {
    if (!owned_) {
      owned_ = true;
      lock.unlock();
      drive([&pending] { return pending.over(); }, until);
      lock.lock();
      leave(lock);
    } else {
      waiting_threads_.fetch_add(1);
      reactor_.interrupt();  // the helper leaves, a waiting caller looks at its inbox and sleeps again
      changed_.wait_until(lock, until, [&] { return pending.over() || !owned_; });
      waiting_threads_.fetch_sub(1);
    }
    if (Clock::now() >= until) return pending.over();
  }
  return true;
}

void Engine::exclusively(const std::function<void()>& task) {
  std::unique_lock lock{mutex_};
  if (!owned_) {
    owned_ = true;
    lock.unlock();
    task();
    lock.lock();
    leave(lock);
    return;
  }
  tasks_.push_back(&task);
  inbox_full_.store(true, std::memory_order_release);
  waiting_threads_.fetch_add(1);
  reactor_.interrupt();
  const auto finished = [&] { return std::find(tasks_.begin(), tasks_.end(), &task) == tasks_.end(); };
  // The owner runs its inbox between two passes and before it leaves, so this wait is as short as a pass.
  changed_.wait(lock, finished);
  waiting_threads_.fetch_sub(1);
}

void Engine::leave(std::unique_lock<std::mutex>& lock) noexcept {
  while (!inbox_.empty() || !tasks_.empty()) {
    lock.unlock();
    drain_inbox();
    lock.lock();
  }
  owned_ = false;
  if (waiting_threads_.load() > 0) changed_.notify_all();
  if (asynchronous_.load() > 0 && helper_idle_) helper_wanted_.notify_one();
}

void Engine::drain_inbox() noexcept {
  std::unique_lock lock{mutex_};
  inbox_full_.store(false, std::memory_order_release);
  while (!inbox_.empty()) {
    Pending* pending = inbox_.front();
    inbox_.erase(inbox_.begin());  // in order: operations of one communicator are numbered
    lock.unlock();
    begin(*pending);
    lock.lock();
  }
  while (!tasks_.empty()) {
    const std::function<void()>* task = tasks_.front();
    lock.unlock();
    (*task)();
    lock.lock();
    tasks_.erase(tasks_.begin());
    changed_.notify_all();
  }
}

void Engine::help() {
  std::unique_lock lock{mutex_};
  while (!stopping_) {
    helper_idle_ = true;
    helper_wanted_.wait(lock, [this] { return stopping_ || asynchronous_.load() > 0; });
    helper_idle_ = false;
    std::uint64_t seen = passes_.load();
    for (int quiet = 0; !stopping_ && quiet < helper_patience;) {
      helper_wanted_.wait_for(lock, helper_interval);
      quiet = asynchronous_.load() > 0 ? 0 : quiet + 1;
      const bool nobody_drove = std::exchange(seen, passes_.load()) == passes_.load();
      if (asynchronous_.load() == 0 || owned_ || waiting_threads_.load() > 0 || !nobody_drove) continue;
      owned_ = true;
      lock.unlock();
      drive([this] { return asynchronous_.load() == 0 || waiting_threads_.load() > 0 || stopping_; },
            Clock::time_point::max());
      lock.lock();
      leave(lock);
      seen = passes_.load();
    }
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
  for (int passes = 0; !done();) {
    if (inbox_full_.load(std::memory_order_acquire)) drain_inbox();
    const bool moved = progress();
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
      if (passes % passes_per_clock == 0 && Clock::now() >= until) return;
      if (passes > patience_.spins + patience_.yields && Clock::now() >= until) return;
    }
  }
}

bool Engine::progress() noexcept {
  bool moved = !ready_.empty();
  for (const auto& transport : transports_) moved |= transport->progress();
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

void Engine::idle(int passes, Clock::time_point until) noexcept {
  if (passes % passes_per_poll == 0) {
    reactor_.poll();
    expire_overdue();
  }
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
  if (nothing_to_do) {
    reactor_.sleep(until);
  } else {
    reactor_.poll();
  }
  for (const auto& transport : transports_) transport->awake();
}

Clock::time_point Engine::expire_overdue() noexcept {
  const auto now = Clock::now();
  auto next = Clock::time_point::max();
  for (std::size_t i = 0; i < live_.size(); ++i) {
    if (live_[i]->deadline <= now) {
      live_[i]->expire();
    } else {
      next = std::min(next, live_[i]->deadline);
    }
  }
  return next;
}

// ---- Operations ------------------------------------------------------------------------------------------------

void Engine::begin(Pending& pending) noexcept {
  pending.live_index = live_.size();
  live_.push_back(&pending);
  pending.start();
  run_ready();
  clean_up_failures();
}

void Engine::finished(Pending& pending, const Error* error) noexcept {
  live_.back()->live_index = pending.live_index;
  live_[pending.live_index] = live_.back();
  live_.pop_back();
  if (pending.asynchronous) asynchronous_.fetch_sub(1);
  finished_any_ = true;
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

void Engine::cut() noexcept {
  for (const auto& transport : transports_) transport->cut();
}

// ---- Channels --------------------------------------------------------------------------------------------------

void Engine::attach(transport::Channel channel, ChannelUser& user) {
  users_.emplace(channel, &user);
  std::erase_if(strangers_, [&](transport::Link* link) {
    if (link->channel() != channel) return false;
    link->resume();
    return true;
  });
}

void Engine::detach(transport::Channel channel, const Error* reason, Clock::time_point deadline) noexcept {
  for (const auto& transport : transports_) {
    if (reason) {
      transport->abort_channel(channel, *reason);
    } else {
      transport->close_channel(channel, deadline);
    }
  }
  std::erase_if(strangers_, [&](transport::Link* link) { return link->channel() == channel; });
  users_.erase(channel);
}

void Engine::abort_channel(transport::Channel channel, const Error& reason) noexcept {
  for (const auto& transport : transports_) transport->abort_channel(channel, reason);
}

ChannelUser* Engine::user_of(transport::Link& link) noexcept {
  if (link.context) return static_cast<ChannelUser*>(link.context);
  const auto found = users_.find(link.channel());
  if (found == users_.end()) return nullptr;
  link.context = found->second;
  return found->second;
}

transport::Acceptance Engine::arrived(transport::Link& from, const transport::Frame& frame) noexcept {
  if (ChannelUser* user = user_of(from)) return user->arrived(from, frame);
  strangers_.push_back(&from);  // a peer is ahead of us: it has made a sub-group that we are about to make
  return {};
}

void Engine::view(transport::Link& from, std::span<const std::byte> piece) noexcept {
  user_of(from)->view(from, piece);
}

void Engine::received(transport::Link& from) noexcept { user_of(from)->received(from); }

void Engine::sent(transport::Link& to, transport::Token token) noexcept { user_of(to)->sent(to, token); }

void Engine::failed(transport::Link& link, const Error& reason) noexcept {
  std::erase(strangers_, &link);
  if (ChannelUser* user = user_of(link)) user->failed(link, reason);
}

}  // namespace tutti::detail
