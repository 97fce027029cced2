#pragma once

#include <optional>
#include <span>
#include <vector>

#include "algorithms/board_program.h"
#include "algorithms/plan.h"

namespace tutti::algorithms {

/// What one rank does with a plan where the ranks can read and write each other's buffers. Nothing is posted but where
/// those are: once all ranks have come each does its tasks, which touch nothing that another rank's tasks write, and
/// once all are through the call is over.
///
/// It is made of the plan's rounds on a board. In the first one a rank reads what it would have read there. What only
/// the root has the root writes to the others, and what one rank has made for others in the first round it writes to
/// them as well, so that no second round is needed.
struct WindowProgram {
  struct Part {
    int rank = 0;
    Blocks blocks{};
    friend bool operator==(const Part&, const Part&) = default;
  };
  /// The left fold of `source_count` parts, or a copy of one, goes to the outputs of `to_count` ranks. The first of
  /// them is this rank, if it is one of them.
  struct Task {
    Blocks dst{};
    int source = 0;  ///< in `sources`
    int source_count = 0;
    int to = 0;  ///< in `destinations`
    int to_count = 0;
    friend bool operator==(const Task&, const Task&) = default;
  };
  std::vector<Task> tasks;
  std::vector<Part> sources;
  std::vector<int> destinations;
  std::vector<int> others;    ///< all ranks but this one
  bool shares_input = false;  ///< the buffers that ranks touch in each other, the same on all ranks
  bool shares_output = false;

  friend bool operator==(const WindowProgram&, const WindowProgram&) = default;
};

/// Of all ranks, from those for a board; empty if it takes more than that. `root`: of a rooted collective.
std::vector<WindowProgram> lower_to_windows(std::span<const BoardProgram> programs, int root);

}  // namespace tutti::algorithms
