#pragma once

#include <optional>
#include <span>
#include <vector>

#include "algorithms/board_program.h"
#include "algorithms/plan.h"

namespace tutti::algorithms {

/// What one rank does with a plan if the ranks can read and write each other's buffers. Ranks only post where their
/// buffers are. Once all have come, each runs its tasks, which do not use memory that another rank's tasks write, and
/// the call ends when all are done.
///
/// It is derived from the plan's rounds on a board. In the first round a rank reads what it would have read there. The
/// root writes the data that only it has to the others. A rank that computes results for others in the first round
/// writes them to those ranks as well, so no second round is needed.
struct WindowProgram {
  struct Part {
    int rank = 0;
    Blocks blocks{};
    friend bool operator==(const Part&, const Part&) = default;
  };
  /// The left fold of `source_count` parts, or a copy of one, is written to the outputs of `to_count` ranks. If this
  /// rank is one of them, it is the first.
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
  bool shares_input = false;  ///< ranks use each other's inputs (outputs); the same on all ranks
  bool shares_output = false;

  friend bool operator==(const WindowProgram&, const WindowProgram&) = default;
};

/// The programs of all ranks, derived from those for a board; empty if more is needed. `root`: that of a rooted
/// collective.
std::vector<WindowProgram> lower_to_windows(std::span<const BoardProgram> programs, int root);

}  // namespace tutti::algorithms
