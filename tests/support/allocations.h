#pragma once

#include <cstddef>

namespace tutti::transport::testing {

/// Calls of operator new by this thread since it began.
std::size_t allocations();
/// From now on `observer` is called with all memory of this thread before it is freed; null: none.
void observe_releases(void (*observer)(const void* memory));

}  // namespace tutti::transport::testing
