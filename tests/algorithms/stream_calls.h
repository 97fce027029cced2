#pragma once

// Calls of all ranks on streams, back to back, compared bit for bit with the same plans run on whole vectors.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/plan.h"
#include "algorithms/stream_program.h"
#include "algorithms/stream_run.h"
#include "algorithms/stream_tasks.h"
#include "algorithms/window_program.h"
#include "tutti/types.h"

namespace tutti::algorithms::testing {

using Bytes = std::vector<std::byte>;

/// Sizes of one call, by rank.
using CallSizes = std::vector<StreamSizes>;

/// A vector of `count` elements, or parts of `count` elements each, as the collective has it.
CallSizes equal_sizes(Collective collective, const Shape& shape, std::size_t count);
/// Parts of counts[from][to] elements for an all_to_all, else of counts[0][rank].
CallSizes part_sizes(Collective collective, const Shape& shape, const std::vector<std::vector<std::size_t>>& counts);

/// Two of three calls, the first ones, are by tasks.
struct TaskSetup {
  std::vector<WindowProgram> programs;
  TaskStages stages;
  std::size_t staging = 0;  ///< elements
};

/// `element_size` is 8 or 4; sums have 8 bytes.
struct StreamSetup {
  Collective collective{};
  std::vector<Plan> plans;
  StreamSlots slots;
  StreamStages stages;
  std::size_t element_size = 8;
  std::optional<TaskSetup> tasks{};
};

class StreamCalls {
 public:
  StreamCalls(StreamSetup setup, std::vector<CallSizes> calls);

  /// By call and rank; may be changed.
  std::vector<std::vector<StreamCommands>> commands;
  /// The commands of all calls and rounds from given counters on.
  StreamCommands commands_of(std::size_t call, int rank, StreamCounters& counters) const;

  /// Runs the commands. Returns what went wrong, or nothing if all results are right.
  std::string run(const StreamOrder& order);
  std::size_t ran() const { return ran_; }

 private:
  struct Rank {
    Bytes input;
    Bytes output;  // empty in place
    Bytes scratch;
  };
  struct Memory {
    std::vector<Rank> ranks;
  };
  Memory fresh(std::size_t call) const;
  Bytes& output_of(Rank& rank) const { return setup_.stages.in_place ? rank.input : rank.output; }
  StreamMemory view(std::size_t call, int rank, Rank& memory) const;
  void run_plans(std::size_t call, Memory& memory) const;
  Blocks held(int rank, Buffer buffer) const;

  StreamSetup setup_;
  StreamUnits units_;
  std::vector<CallSizes> calls_;
  std::size_t ran_ = 0;  // commands
};

}  // namespace tutti::algorithms::testing
