#pragma once

#include <span>

#include "algorithms/board_program.h"
#include "algorithms/check.h"
#include "algorithms/window_program.h"

namespace tutti::algorithms {

/// Proves the board programs of all ranks. Each rank reads the intended data, from posts that it waits for; every rank
/// takes part in every round, so that posts may be reused; the values are right, in place and out of place.
Verdict check_board(Collective collective, const Shape& shape, std::span<const BoardProgram> programs,
                    Claims claims = {});
/// The same for programs that use each other's buffers: no task uses what another one writes, and the values are right.
/// `also_in_place`: with input and output of each rank in one memory, too.
Verdict check_windows(Collective collective, const Shape& shape, std::span<const WindowProgram> programs,
                      Claims claims = {}, bool also_in_place = true);

}  // namespace tutti::algorithms
