#include "lib/engine/ownership.h"

#include <exception>
#include <utility>

namespace tutti::detail {

bool Ownership::own_or_ask() noexcept {
  while (!try_own())
    if (ask_owner()) return false;
  return true;
}

/// Asks the owner to take mail before it leaves. False: nobody owns the engine.
bool Ownership::ask_owner() noexcept {
  unsigned now = word_.load(std::memory_order_relaxed);
  while (now != 0)
    if (word_.compare_exchange_weak(now, owned | wanted, std::memory_order_relaxed)) return true;
  return false;
}

void Ownership::leave_for_owner(Lock& lock, Pending& pending) {
  inbox_.push(&pending);
  has_mail_.store(true, std::memory_order_release);
  lock.unlock();
  wake_owner();
}

void Ownership::leave_for_owner(Lock& lock, Function task) {
  tasks_.push_back(std::make_shared<Task>(Task{std::move(task)}));
  has_mail_.store(true, std::memory_order_release);
  lock.unlock();
  wake_owner();
}

bool Ownership::run_by_owner(Lock& lock, const Function& task, Clock::time_point until) {
  std::exception_ptr problem;  // which is not the owner's
  const auto entry = std::make_shared<Task>(Task{[&] {
    try {
      task();
    } catch (...) {
      problem = std::current_exception();
    }
  }});
  tasks_.push_back(entry);
  has_mail_.store(true, std::memory_order_release);
  waiting_threads_.fetch_add(1);
  wake_owner();
  // The owner takes its mail between two passes and before it leaves. So this wait is as short as a pass, unless the
  // owner is in a user's function.
  const auto done = [&entry] { return entry->done; };
  const bool in_time = until != Clock::time_point::max() && changed_.wait_until(lock, until, done);
  if (!in_time && (until == Clock::time_point::max() || entry->begun)) changed_.wait(lock, done);
  if (!entry->done) std::erase(tasks_, entry);
  waiting_threads_.fetch_sub(1);
  if (problem) std::rethrow_exception(problem);
  return entry->done;
}

void Ownership::leave() noexcept {
  owner_.store({}, std::memory_order_relaxed);
  word_.store(0, std::memory_order_release);
  if (others_wait()) changed_.notify_all();
}

void Ownership::tell_waiting_threads() noexcept {
  if (!others_wait()) return;
  const std::lock_guard lock{mutex_};
  changed_.notify_all();
}

}  // namespace tutti::detail
