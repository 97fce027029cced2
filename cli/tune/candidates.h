#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/catalogue.h"
#include "cli/measure/workload.h"
#include "tutti/types.h"

namespace tutti::cli::tune {

/// Whether ranks whose kernels use each other's memory run it so.
bool runs_in_peers_memory(const algorithms::Choice& choice, int ranks);

/// The algorithms of the catalogue that are worth measuring for one collective and number of ranks, with their radices
/// and a coarse choice of message sizes if they have a pipeline. If several have the same plans, step for step, only
/// the first is used, except those that may run on a board, which is faster.
///
/// Calls on GPUs (gpus.h) may also be `staged`: they go through the host, by the algorithm that is chosen there. Ranks
/// that share GPUs have beside it only algorithms that run in each other's memory, since all others are staged.
class Candidates {
 public:
  Candidates(Collective collective, int ranks, std::string_view transport = "shm");

  /// The candidates that make sense at this size: a pipeline has more than one message, and not thousands.
  std::vector<std::string> at(std::size_t bytes) const;
  /// The same algorithm with half and twice the message size, if that makes sense; empty without a pipeline.
  std::vector<std::string> neighbours(const std::string& name, std::size_t bytes) const;

 private:
  bool makes_sense(const algorithms::Choice& choice, std::size_t bytes) const;
  void add_those_with_plans(std::string_view transport);

  Collective collective_;
  int ranks_;
  std::vector<std::string> names_;
};

}  // namespace tutti::cli::tune
