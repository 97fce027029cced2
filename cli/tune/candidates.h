#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "algorithms/catalogue.h"
#include "cli/measure/workload.h"
#include "tutti/types.h"

namespace tutti::cli::tune {

/// The algorithms of the catalogue that are worth a try for one collective among so many ranks, with their radices
/// and a coarse choice of message sizes where they have a pipeline. Of several whose plans are the same, step for step,
/// only the first is taken, but for those called direct: the library has faster ways for that name.
class Candidates {
 public:
  Candidates(Collective collective, int ranks);

  /// Those that make sense at this size: a pipeline of more than one message, and not of thousands.
  std::vector<std::string> at(std::size_t bytes) const;
  /// The same algorithm with half and twice the message size, as far as that makes sense; nothing without a pipeline.
  std::vector<std::string> neighbours(const std::string& name, std::size_t bytes) const;

 private:
  bool makes_sense(const algorithms::Choice& choice, std::size_t bytes) const;

  Collective collective_;
  int ranks_;
  std::vector<std::string> names_;
};

}  // namespace tutti::cli::tune
