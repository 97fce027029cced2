#pragma once

#include <exception>
#include <mutex>
#include <utility>
#include <vector>

#include "backend.h"

namespace tutti_torch {

/// The backends that live, so that the end of the process can end them while Python still works.
class Living {
 public:
  static Living& all() {
    static Living& all = *new Living;
    return all;
  }

  c10::intrusive_ptr<TuttiBackend> add(c10::intrusive_ptr<TuttiBackend> backend) {
    const std::lock_guard lock{mutex_};
    std::erase_if(backends_, [](const auto& old) { return old.expired(); });
    backends_.emplace_back(backend);
    return backend;
  }

  /// See that of each communicator.
  std::exception_ptr await_streams() {
    for (const auto& backend : living())
      if (auto interrupt = backend->await_streams()) return interrupt;
    return nullptr;
  }
  void close() {
    for (const auto& backend : living()) backend->shutdown();
  }

 private:
  std::vector<c10::intrusive_ptr<TuttiBackend>> living() {
    const std::lock_guard lock{mutex_};
    std::vector<c10::intrusive_ptr<TuttiBackend>> found;
    for (auto& weak : backends_)
      if (auto backend = weak.lock()) found.push_back(std::move(backend));
    return found;
  }

  std::mutex mutex_;
  std::vector<c10::weak_intrusive_ptr<TuttiBackend>> backends_;
};

}  // namespace tutti_torch
