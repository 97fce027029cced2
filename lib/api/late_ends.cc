#include "lib/api/late_ends.h"

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "lib/api/communicator_state.h"
#include "lib/base/background_thread.h"
#include "lib/base/fork_mark.h"

namespace tutti::detail {
namespace {

/// The communicators of this process that are to be ended, and the thread that ends them while there are any.
class LateEnds {
 public:
  /// Never destroyed. A child of fork() has its own.
  static LateEnds& of_this_process() {
    static std::atomic<LateEnds*> current{nullptr};
    LateEnds* ends = current.load();
    while (!ends || !ends->mark_.is_here()) {
      auto fresh = std::make_unique<LateEnds>();
      if (current.compare_exchange_strong(ends, fresh.get())) ends = fresh.release();
    }
    return *ends;
  }

  void add(CommunicatorState* state) {
    const std::lock_guard lock{mutex_};
    states_.emplace_back(state);
    if (runs_) return;
    if (thread_.joinable()) thread_.join();  // it has nothing to do any more
    try {
      thread_ = start_thread_without_signals([this] { run(); });
      runs_ = true;
    } catch (const std::system_error&) {
      // The system refuses a thread now. The next communicator that comes here tries again.
    }
  }
  void finish() {
    std::unique_lock lock{mutex_};
    std::thread last = std::move(thread_);
    lock.unlock();
    if (last.joinable()) last.join();
    run();  // those for which the system refused a thread
  }

 private:
  void run() {
    std::unique_lock lock{mutex_};
    while (!states_.empty()) {
      std::unique_ptr<CommunicatorState> state = std::move(states_.front());
      states_.pop_front();
      lock.unlock();
      state.reset();
      lock.lock();
    }
    runs_ = false;
  }

  const ForkMark mark_;
  std::mutex mutex_;
  std::deque<std::unique_ptr<CommunicatorState>> states_;
  bool runs_ = false;
  std::thread thread_;
};

struct AtExit {
  ~AtExit() { LateEnds::of_this_process().finish(); }
};

}  // namespace

void end_later(CommunicatorState* state) noexcept {
  LateEnds& ends = LateEnds::of_this_process();
  static const AtExit at_exit;
  ends.add(state);
}

}  // namespace tutti::detail
