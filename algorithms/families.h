#pragma once

#include "algorithms/plan.h"

// The builders of all algorithms in catalogue.inc, each `Plan name_collective(const Shape&)`. They are described in the
// files of their families.

namespace tutti::algorithms {

#define TUTTI_ALGORITHM(collective, name, traits, idea) Plan name##_##collective(const Shape& shape);
#include "algorithms/catalogue.inc"
#undef TUTTI_ALGORITHM

}  // namespace tutti::algorithms
