#pragma once

#include <atomic>
#include <mutex>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

namespace tutti_torch {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;

/// The calls of a coalescing region, which one Work stands for. They begin when they are made, and none of them waits.
class CoalescedWorks {
 public:
  /// Ends one that was left.
  void begin();
  WorkPtr end();
  bool is_open() const { return open_.load(std::memory_order_relaxed); }
  /// Does nothing outside of a region.
  void add(const WorkPtr& work);

 private:
  std::atomic<bool> open_{false};
  std::mutex mutex_;
  std::vector<WorkPtr> works_;  // under mutex_
};

}  // namespace tutti_torch
