#pragma once

#include <cstddef>
#include <string>

#include "cli/plan/replay.h"
#include "cli/plan/view.h"

namespace tutti::cli {

/// How to read the frames.
std::string frames_legend(const View& view, const Replays& replays);

/// What each rank has of each block after a step: a row per rank, a column per block, or per run of blocks that fare
/// alike. At most 80 columns wide, in bands if need be.
std::string frame(const View& view, const Replays& replays, std::size_t step);

/// Steps, bytes and time, each beside the least that any algorithm can do with.
std::string footer(const View& view, const Replays& replays);

}  // namespace tutti::cli
