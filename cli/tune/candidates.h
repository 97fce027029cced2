#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "algorithms/catalogue.h"
#include "cli/measure/workload.h"
#include "tutti/types.h"

namespace tutti::cli::tune {

/// The algorithms of the catalogue that are worth measuring for one collective and number of ranks, with their radices
/// and a coarse choice of message sizes if they have a pipeline. If several have the same plans, step for step, only
/// the first is used, except those that may run on a board, which is faster.
class Candidates {
 public:
  Candidates(Collective collective, int ranks);

  /// The candidates that make sense at this size: a pipeline has more than one message, and not thousands.
  std::vector<std::string> at(std::size_t bytes) const;
  /// The same algorithm with half and twice the message size, if that makes sense; empty without a pipeline.
  std::vector<std::string> neighbours(const std::string& name, std::size_t bytes) const;

 private:
  bool makes_sense(const algorithms::Choice& choice, std::size_t bytes) const;

  Collective collective_;
  int ranks_;
  std::vector<std::string> names_;
};

}  // namespace tutti::cli::tune
