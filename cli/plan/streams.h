#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "algorithms/stream_program.h"
#include "algorithms/stream_run.h"
#include "cli/plan/view.h"

namespace tutti::cli {

/// Plans as commands on streams of GPUs, one for each rank: `tutti plan --on gpu`. Elements have 4 bytes, and no op
/// changes them before or after.
struct GpuStreams {
  struct Rank {
    int rank = 0;
    std::vector<algorithms::StreamCommands> rounds;
    std::size_t scratch = 0;  ///< elements
    algorithms::StreamCounts counts;
  };
  algorithms::StreamSlots slots;
  std::size_t bytes = 0;  ///< of the vector
  std::size_t piece = 0;  ///< elements
  int gpus = 0;           ///< as in StreamWish
  std::vector<Rank> ranks;
};

struct StreamWish {
  std::size_t bytes = 0;
  std::size_t slot_bytes = 0;
  int slots = 0;
  std::vector<int> ranks;  ///< to be shown
  int gpus = 0;            ///< of ranks that use each other's memory; 0: messages go over links
};

/// The streams of one call, with links that were not used before. Throws Error{unsupported} if they would deadlock.
GpuStreams make_streams(const View& view, const StreamWish& wish);

/// All ranks with the first `at_most` commands of each.
std::string streams_as_text(const View& view, const GpuStreams& streams, std::size_t at_most);
std::string streams_as_json(const View& view, const GpuStreams& streams);

}  // namespace tutti::cli
