#pragma once

#include "algorithms/plan.h"

// The builders of all algorithms in catalogue.inc, each `Plan name_collective(const Shape&)`. What one does stands in
// its family's file.

namespace tutti::algorithms {

#define TUTTI_ALGORITHM(collective, name, traits, idea) Plan name##_##collective(const Shape& shape);
#include "algorithms/catalogue.inc"
#undef TUTTI_ALGORITHM

}  // namespace tutti::algorithms
