#pragma once

#include <cstddef>

namespace tutti::transport::testing {

/// Calls of operator new by this thread since it began.
std::size_t allocations();
/// From now on `observer` is called with all memory of this thread before it is freed; null: none.
void observe_releases(void (*observer)(const void* memory));

/// While it exists, one call of operator new by this thread finds no memory.
class FailingAllocation {
 public:
  /// `number`: which one, from 1 on.
  explicit FailingAllocation(std::size_t number);
  ~FailingAllocation();
  FailingAllocation(const FailingAllocation&) = delete;
  FailingAllocation& operator=(const FailingAllocation&) = delete;
};

}  // namespace tutti::transport::testing
