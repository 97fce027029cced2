#pragma once

#include <cstddef>

#include "tests/support/fake_cuda/fake.h"

namespace fake_cuda {

using GraphExec = void*;

// The functions of the driver, without what all have in common (entry_points.cc).
#define TUTTI_DRIVER_FUNCTION(name, version, ...) Result name(__VA_ARGS__);
#include "lib/base/gpu/functions.inc"
#include "tests/support/fake_cuda/program_functions.inc"
#undef TUTTI_DRIVER_FUNCTION

}  // namespace fake_cuda
