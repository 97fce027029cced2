#pragma once

#include <cstddef>
#include <mutex>
#include <set>
#include <tuple>

#include "algorithms/catalogue.h"
#include "algorithms/plan.h"

namespace tutti::algorithms {

/// Blocks that one rank's plan uses: roughly the cost of building and checking it.
std::size_t weight(const Plan& plan);

/// Limit on the blocks that the plans of all ranks use together; beyond it, proofs take minutes.
constexpr std::size_t most_blocks_to_prove = 100'000'000;

/// Proves plans of the catalogue before they run, each once. Threads may share one object.
class Proofs {
 public:
  /// Proves the plans of all ranks (check.h), unless that has been done before or would take minutes. `choice` has its
  /// pipeline, as settled() leaves it. Throws Error{unsupported} that names rank, step and block of the first problem.
  void require(const Choice& choice, int ranks, int root = 0);

 private:
  std::mutex mutex_;
  std::set<std::tuple<const Entry*, int, int, int, int, std::vector<int>>>
      proved_;  // ..., root, pipeline, radix, domains
};

}  // namespace tutti::algorithms
