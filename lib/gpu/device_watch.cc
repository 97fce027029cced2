#include "lib/gpu/device_watch.h"

#include <exception>
#include <utility>

#include "lib/base/background_thread.h"
#include "tutti/error.h"

namespace tutti::detail {

DeviceWatch::~DeviceWatch() {
  {
    const std::lock_guard lock{mutex_};
    stops_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void DeviceWatch::look_at(const cuda::OwnEvent& event) noexcept {
  try {
    const std::lock_guard lock{mutex_};
    wanted_ = &event;
    if (!thread_.joinable()) thread_ = start_thread_without_signals([this] { run(); });
    changed_.notify_one();
  } catch (const std::exception&) {  // there is no thread, and the deadline has to do
  }
}

void DeviceWatch::run() {
  std::unique_lock lock{mutex_};
  for (;;) {
    changed_.wait(lock, [this] { return stops_ || wanted_; });
    if (stops_) return;
    const cuda::OwnEvent& event = *std::exchange(wanted_, nullptr);
    lock.unlock();
    try {
      const cuda::KnowsOfCapture knows;
      (void)event.done();
    } catch (const Error& error) {
      failed_(error.what());
    }
    lock.lock();
  }
}

}  // namespace tutti::detail
