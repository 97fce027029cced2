#pragma once

#include <span>

#include "algorithms/board_program.h"
#include "algorithms/check.h"
#include "algorithms/window_program.h"

namespace tutti::algorithms {

/// Proves what all ranks do on a board: each reads what it means to read, of posts that it waits for; every rank takes
/// part in every round, so that posts may be written again; and the values are right, in place and out of place.
Verdict check_board(Collective collective, const Shape& shape, std::span<const BoardProgram> programs,
                    Claims claims = {});
/// The same for what they do in each other's buffers: no rank touches what another one writes, and the values are
/// right.
Verdict check_windows(Collective collective, const Shape& shape, std::span<const WindowProgram> programs,
                      Claims claims = {});

}  // namespace tutti::algorithms
