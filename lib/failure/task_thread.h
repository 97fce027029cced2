#pragma once

#include <poll.h>

#include <functional>
#include <thread>
#include <utility>

#include "lib/base/background_thread.h"
#include "lib/failure/task_queue.h"

namespace tutti::detail {

/// Runs tasks one after the other on a thread of its own, so that who posts them waits for none. Threading: any thread,
/// but the destructor once nobody posts any more.
class TaskThread {
 public:
  /// Throws Error{system} or std::system_error if the system refuses what it needs.
  TaskThread() : thread_(start_thread_without_signals([this] { run(); })) {}
  /// Returns when all tasks have run.
  ~TaskThread() {
    post([this] { ends_ = true; });
    thread_.join();
  }
  TaskThread(const TaskThread&) = delete;

  void post(std::function<void()> task) { tasks_.post(std::move(task)); }

 private:
  void run() {
    while (!ends_) {
      pollfd query{.fd = tasks_.fd(), .events = POLLIN, .revents = 0};
      ::poll(&query, 1, -1);
      for (const auto& task : tasks_.take()) task();
    }
  }

  TaskQueue tasks_;
  bool ends_ = false;  // for its thread
  std::thread thread_;
};

}  // namespace tutti::detail
