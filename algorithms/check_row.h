#pragma once

#include "algorithms/check.h"
#include "algorithms/row_program.h"

namespace tutti::algorithms {

/// Proves a program by writing it as plans again, and proving those.
Verdict check_row(Collective collective, const Shape& shape, const RowProgram& program);

}  // namespace tutti::algorithms
