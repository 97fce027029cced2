#pragma once

#include <sys/eventfd.h>

#include <cerrno>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "lib/base/descriptor.h"
#include "lib/base/system_error_text.h"
#include "tutti/error.h"

namespace tutti::detail {

/// Tasks of other threads for one that takes them, as the failure detector's does. Threading: post() from anywhere.
class TaskQueue {
 public:
  using Tasks = std::vector<std::function<void()>>;

  /// Throws Error{system}.
  TaskQueue() : bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!bell_) throw Error{ErrorCode::system, "cannot make an eventfd for the failure detector: " + refusal(errno)};
  }

  void post(std::function<void()> task) {
    const std::lock_guard lock{mutex_};
    tasks_.push_back(std::move(task));
    ::eventfd_write(bell_.get(), 1);
  }

  /// A descriptor that is readable while there are tasks.
  int fd() const { return bell_.get(); }
  Tasks take() {
    eventfd_t rung = 0;
    const std::lock_guard lock{mutex_};
    ::eventfd_read(bell_.get(), &rung);
    return std::exchange(tasks_, {});
  }

 private:
  Descriptor bell_;
  std::mutex mutex_;
  Tasks tasks_;
};

}  // namespace tutti::detail
