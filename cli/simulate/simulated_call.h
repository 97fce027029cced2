#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "algorithms/catalogue.h"
#include "algorithms/plan.h"
#include "lib/collective/binding.h"
#include "tutti/types.h"

namespace tutti::cli::simulate {

/// One call to be timed.
struct SimulatedCall {
  Collective collective{};
  algorithms::Choice choice;  ///< settled
  int ranks = 1;
  int root = 0;
  std::size_t bytes = 0;                                 ///< of the larger of one rank's input and output
  const std::vector<algorithms::Plan>* given = nullptr;  ///< plans of all ranks that `choice` does not build, if any
  std::string asked = {};                                ///< `choice` before it was settled; empty: the same
  std::size_t element = 0;                               ///< bytes of an element; 0: as in `tutti bench`

  algorithms::Plan plan(int rank) const;
  int pipeline() const { return given != nullptr ? given->front().shape.pipeline : choice.pipeline; }
};

/// What is moved of a call of that many bytes: equal parts of whole elements, as in `tutti bench`.
std::size_t moved_bytes(Collective collective, int ranks, std::size_t bytes);

/// The bytes of blocks, cut as the engine cuts them.
class BlockSizes {
 public:
  explicit BlockSizes(const SimulatedCall& simulated);
  /// For blocks in input or output.
  std::size_t of(int first, int count) const { return partition_.offset(first + count) - partition_.offset(first); }
  std::size_t of(const algorithms::Plan& plan, const algorithms::Blocks& blocks) const;

 private:
  detail::Partition partition_;
};

/// The range whose bytes a step moves or computes.
const algorithms::Blocks& range_of(const algorithms::Step& step);

/// The result of a simulation. All times are in seconds.
struct Result {
  double seconds = 0;       ///< until the last rank is done
  double messages = 0;      ///< of all ranks
  const char* engine = "";  ///< what computed it
};

}  // namespace tutti::cli::simulate
