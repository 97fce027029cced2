#pragma once

#include <cstddef>
#include <string>

#include "cli/plan/replay.h"
#include "cli/plan/view.h"

namespace tutti::cli {

/// Explains the frames.
std::string frames_legend(const View& view, const Replays& replays);

/// Each rank's contents of each block after a step: a row per rank, and a column per block, or per run of blocks with
/// equal contents. At most 80 columns wide, in several bands if necessary.
std::string frame(const View& view, const Replays& replays, std::size_t step);

/// Steps, bytes and time, each beside the lower bound for any algorithm.
std::string footer(const View& view, const Replays& replays);

}  // namespace tutti::cli
