#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "lib/engine/fifo.h"
#include "lib/engine/pending.h"
#include "transport/reactor.h"

namespace tutti::detail {

/// Which thread owns an engine, and what other threads have left for it: operations to begin, and tasks to run.
///
/// While only one thread wants the engine, it takes and leaves it without the mutex: the word goes from 0 to `owned`
/// and back. A thread that finds the engine owned adds `wanted`, under the mutex. The owner then leaves under the
/// mutex, too, and sees all that was left for it.
class Ownership {
 public:
  using Lock = std::unique_lock<std::mutex>;
  using Function = std::function<void()>;

  /// `reactor`: where the owner sleeps.
  explicit Ownership(transport::Reactor& reactor) : reactor_(reactor) {}

  bool try_own() noexcept {
    unsigned nobody = 0;
    if (!word_.compare_exchange_strong(nobody, owned, std::memory_order_acquire, std::memory_order_relaxed))
      return false;
    owner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
    return true;
  }
  /// For the owner. False: another thread wants the engine, so the owner must take its mail and leave().
  bool try_leave() noexcept {
    unsigned only_owned = owned;
    owner_.store({}, std::memory_order_relaxed);
    if (word_.compare_exchange_strong(only_owned, 0, std::memory_order_release)) return true;
    owner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
    return false;
  }
  bool is_owned() const noexcept { return word_.load() != 0; }
  /// Whether this thread owns the engine. Each thread writes its own id only, before it could read it here.
  bool is_owned_here() const noexcept { return owner_.load(std::memory_order_relaxed) == std::this_thread::get_id(); }
  bool others_wait() const noexcept { return waiting_threads_.load() > 0; }
  void wake_owner() noexcept { reactor_.interrupt(); }
  Lock lock() { return Lock{mutex_}; }

  // ---- Under the mutex
  /// True: this thread owns the engine now. False: another one does, and will take what this thread leaves for it
  /// before it goes.
  bool own_or_ask() noexcept;
  /// For use after own_or_ask() was false; unlocks.
  void leave_for_owner(Lock& lock, Pending& pending);
  void leave_for_owner(Lock& lock, Function task);
  /// The same, and waits until `task` has run; throws what that throws. False: it had not begun by `until`, and never
  /// will.
  bool run_by_owner(Lock& lock, const Function& task, Clock::time_point until);
  /// Sleeps until `done()`, until nobody owns the engine, or until `until`.
  template <class Done>
  void wait_for_owner(Lock& lock, const Done& done, Clock::time_point until) {
    waiting_threads_.fetch_add(1);
    wake_owner();  // the helper then leaves; a waiting caller takes its mail and sleeps again
    changed_.wait_until(lock, until, [&] { return done() || !ask_owner(); });
    waiting_threads_.fetch_sub(1);
  }
  /// For the owner.
  bool has_mail() const noexcept { return !inbox_.empty() || !tasks_.empty(); }
  void leave() noexcept;

  // ---- For the owner, without the mutex
  bool may_have_mail() const noexcept { return has_mail_.load(std::memory_order_acquire); }
  const std::atomic<bool>& mail_flag() const noexcept { return has_mail_; }
  /// Takes all mail: calls `begin(pending)` for operations, then `run(task)` for tasks.
  template <class Begin, class Run>
  void take_mail(const Begin& begin, const Run& run) noexcept;
  /// Something has ended for which another thread may wait.
  void tell_waiting_threads() noexcept;

 private:
  struct Task {
    Function run;
    bool begun = false;
    bool done = false;
  };
  static constexpr unsigned owned = 1;
  static constexpr unsigned wanted = 2;

  bool ask_owner() noexcept;

  std::atomic<unsigned> word_{0};
  std::atomic<std::thread::id> owner_{};
  std::atomic<int> waiting_threads_{0};
  std::atomic<bool> has_mail_{false};
  transport::Reactor& reactor_;
  std::mutex mutex_;                 // protects what follows
  std::condition_variable changed_;  // a thread's work is done, or the owner has left
  Fifo<Pending*> inbox_;
  std::deque<std::shared_ptr<Task>> tasks_;
};

template <class Begin, class Run>
void Ownership::take_mail(const Begin& begin, const Run& run) noexcept {
  Lock lock{mutex_};
  has_mail_.store(false, std::memory_order_release);
  while (!inbox_.empty()) {
    Pending* const pending = inbox_.pop();  // in order, since operations of one communicator are numbered here
    lock.unlock();
    begin(*pending);
    lock.lock();
  }
  while (!tasks_.empty()) {
    const auto task = tasks_.front();
    tasks_.pop_front();
    task->begun = true;
    lock.unlock();
    run(task->run);
    lock.lock();
    task->done = true;
    changed_.notify_all();
  }
}

}  // namespace tutti::detail
