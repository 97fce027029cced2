#include "lib/engine/helper.h"

#include <algorithm>
#include <string>
#include <system_error>

#include "lib/base/background_thread.h"

namespace tutti::detail {
namespace {

using std::chrono::microseconds;

// The helper takes over when no thread has driven the engine for an interval. To look costs the driver time on its core
// (a send/recv of 4 MiB between 2 ranks takes 452 us with looks every 200 us, 410 without). So a look that finds a
// driver doubles the interval, and one that finds none halves it, between these bounds.
constexpr microseconds first_interval{200}, longest_interval{1600};
constexpr int most_quiet_looks =
    10;  // without a new call; then it sleeps until a call wakes it, which makes that call slower

}  // namespace

void Helper::start() {
  const Ownership::Lock lock = ownership_.lock();
  if (thread_.joinable()) return;
  try {
    thread_ = start_thread_without_signals([this] { run(); });
  } catch (const std::system_error& error) {
    throw Error{ErrorCode::system, std::string("cannot start the thread that asynchronous calls need: ") +
                                       error.what() + "; raise `ulimit -u`, or use the calls that wait"};
  }
}

void Helper::stop() noexcept {
  {
    const Ownership::Lock lock = ownership_.lock();
    stopping_ = true;
    wanted_.notify_one();
  }
  ownership_.wake_owner();
  if (thread_.joinable()) thread_.join();
}

void Helper::run() {
  Ownership::Lock lock = ownership_.lock();
  microseconds interval = first_interval;
  for (int quiet = most_quiet_looks; !stopping_; ++quiet) {
    looks_ = quiet < most_quiet_looks;
    // There is nothing to do while a thread owns the engine, and that thread notifies the helper when it leaves.
    if (!looks_) {
      interval = first_interval;
      wanted_.wait(lock, [this] { return stopping_ || (has_work() && !ownership_.is_owned()); });
    }
    const std::uint64_t drivers = drivers_.load();
    const std::uint64_t begun = begun_.load();
    wanted_.wait_for(lock, interval, [this] { return stopping_.load(); });
    if (!looks_ || begun_.load() != begun) quiet = 0;
    const bool is_driven = ownership_.is_owned() || ownership_.others_wait();
    interval = is_driven ? std::min(2 * interval, longest_interval) : std::max(interval / 2, first_interval);
    if (stopping_ || is_driven || !has_work() || drivers_.load() != drivers || !ownership_.try_own()) continue;
    lock.unlock();
    drive_();
    lock.lock();
  }
}

}  // namespace tutti::detail
