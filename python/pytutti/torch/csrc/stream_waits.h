#pragma once

#include <tutti/c.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <vector>

namespace tutti_torch {

/// Operations of a group for which wait() let a stream wait, and its caller go on. The caller may count on their
/// results, so the group must not end before them. Thread-safe.
class StreamWaits : public std::enable_shared_from_this<StreamWaits> {
 public:
  void add(const std::vector<tutti_work*>& works);
  /// Returns when all are done, or `limit` has passed: a message whose stream never gets there has no end of its own.
  /// Ends early when a signal's handler has raised something, and returns that.
  std::exception_ptr wait(std::chrono::milliseconds limit) const noexcept;

 private:
  std::atomic<int> running_{0};
};

}  // namespace tutti_torch
