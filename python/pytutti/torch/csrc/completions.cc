#include "completions.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "errors.h"

namespace tutti_torch {
namespace {

constexpr int most_idle = 8;
// More only while none of these gets on: they may wait for each other, and not only for Python's lock.
constexpr int usual_threads = 64;
constexpr std::chrono::milliseconds getting_on{50};
constexpr std::chrono::seconds patience_at_exit{2};

/// What a callback of the C interface is called with, once for each operation and once more.
struct Watch {
  std::atomic<std::size_t> running;
  std::unique_ptr<Completions::Action> action;
  void (*due)(Completions::Action*);
};

void one_is_done(void* context) {
  auto* const watch = static_cast<Watch*>(context);
  if (watch->running.fetch_sub(1) > 1) return;
  const std::unique_ptr<Watch> last{watch};
  last->due(last->action.release());
}

}  // namespace

std::atomic<Completions*> Completions::all_{nullptr};

Completions::Completions() {
  static std::once_flag once;
  std::call_once(once, [] { ::pthread_atfork(nullptr, nullptr, [] { all_ = nullptr; }); });
}

Completions& Completions::all() {
  Completions* all = all_;
  if (all == nullptr) [[unlikely]] {
    auto made = std::unique_ptr<Completions>{new Completions};
    if (all_.compare_exchange_strong(all, made.get())) all = made.release();
  }
  return *all;
}

void Completions::when_done(std::span<tutti_work* const> works, Action action) {
  auto* const watch =
      new Watch{works.size() + 1, std::make_unique<Action>(std::move(action)), [](Action* due) { all().push(due); }};
  for (tutti_work* const work : works)
    if (tutti_work_then(work, one_is_done, watch) != TUTTI_OK) one_is_done(watch);  // out of memory: do not wait for it
  one_is_done(watch);
}

void Completions::push(Action* action) noexcept {
  const std::lock_guard lock{mutex_};
  if (stopping_) return;
  due_.push_back(action);
  need_thread();
}

void Completions::drive(Action wait) {
  auto all = std::make_unique<Action>([this] { drive_all(); });
  const std::lock_guard lock{mutex_};
  if (stopping_) return;
  to_drive_.push_back(std::move(wait));
  if (std::exchange(driving_, true)) return;
  due_.push_back(all.release());
  need_thread();
}

void Completions::drive_all() noexcept {
  std::unique_lock lock{mutex_};
  while (!to_drive_.empty() && !stopping_) {
    Action wait = std::move(to_drive_.front());
    to_drive_.pop_front();
    lock.unlock();
    wait();
    wait = nullptr;
    lock.lock();
  }
  driving_ = false;
}

/// One more action is due. Under mutex_.
void Completions::need_thread() noexcept {
  if (std::cmp_less(idle_, due_.size())) {
    if (threads_ < usual_threads) {
      if (start(&Completions::run)) ++threads_, ++idle_;
    } else if (!watching_) {
      watching_ = start(&Completions::watch);
    }
  }
  changed_.notify_one();
}

/// False: those threads that exist come to what is due when they are through.
bool Completions::start(void (Completions::*body)() noexcept) noexcept {
  try {
    std::thread{body, this}.detach();
    return true;
  } catch (const std::system_error&) {
    return false;
  }
}

/// Adds a thread whenever those that there are have begun nothing for a while.
void Completions::watch() noexcept {
  std::unique_lock lock{mutex_};
  while (!due_.empty() && !stopping_) {
    const std::uint64_t begun = begun_;
    ends_.wait_for(lock, getting_on, [this] { return stopping_; });
    if (begun == begun_ && !due_.empty() && !stopping_ && start(&Completions::run)) ++threads_, ++idle_;
  }
  watching_ = false;
}

void Completions::run() noexcept {
  std::unique_lock lock{mutex_};
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !due_.empty(); });
    if (stopping_) break;
    std::unique_ptr<Action> action{due_.front()};
    due_.pop_front();
    --idle_, ++begun_;
    lock.unlock();
    (*action)();
    action.reset();  // what it owns may need Python's lock, and may come back here
    lock.lock();
    ++idle_;
    if (idle_ > most_idle && due_.empty()) break;
  }
  --idle_, --threads_;
  changed_.notify_all();
}

void Completions::stop() noexcept {
  std::unique_lock lock{mutex_};
  stopping_ = true;
  changed_.notify_all();
  ends_.notify_all();
  changed_.wait_for(lock, patience_at_exit, [this] { return threads_ == 0; });
}

}  // namespace tutti_torch
