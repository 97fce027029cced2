#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace tutti::detail {

/// Keeps finished objects for the next call, so that calls allocate nothing once warm. Threading: any thread, since an
/// operation ends where its last Work is dropped.
template <class T>
class Pool {
 public:
  std::unique_ptr<T> take() {
    const std::lock_guard lock{mutex_};
    if (free_.empty()) return nullptr;
    auto object = std::move(free_.back());
    free_.pop_back();
    return object;
  }
  void give(std::unique_ptr<T> object) {
    const std::lock_guard lock{mutex_};
    free_.push_back(std::move(object));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<T>> free_;
};

}  // namespace tutti::detail
