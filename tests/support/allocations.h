#pragma once

#include <cstddef>

namespace tutti::transport::testing {

/// How often this thread has called operator new since it began.
std::size_t allocations();
/// From now on `observer` sees all memory of this thread before it is given back; null: nobody.
void observe_releases(void (*observer)(const void* memory));

}  // namespace tutti::transport::testing
