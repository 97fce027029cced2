#pragma once

#include <cstddef>

namespace tutti::transport::testing {

/// How often this thread has called operator new since it began.
std::size_t allocations();

}  // namespace tutti::transport::testing
