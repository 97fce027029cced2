#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "algorithms/plan.h"
#include "tutti/types.h"

namespace tutti::algorithms {

/// The runs of blocks that every step of every rank uses as a whole. A vector that is too long for the slots goes in
/// rounds, and round k has piece k of each unit. So an element is in the same block, and is combined in the same order,
/// however small the pieces are.
///
/// A ring has a unit for each block. A tree, which moves the whole vector, has one.
class StreamUnits {
 public:
  /// `plans` has those of all ranks. Every rank that asks gets the same answer.
  static StreamUnits of(Collective collective, std::span<const Plan> plans);

  /// The part of some blocks that belongs to the unit of the first of them.
  Blocks first_of(const Plan& plan, const Blocks& blocks) const;
  /// Calls `use(unit)` for each unit of some blocks, in their order.
  template <class Use>
  void for_each(const Plan& plan, Blocks blocks, Use use) const {
    while (blocks.count > 0) {
      const Blocks unit = first_of(plan, blocks);
      use(unit);
      blocks.first += unit.count;
      blocks.count -= unit.count;
    }
  }
  /// In the message that has most.
  std::size_t most_in_message() const { return most_in_message_; }

 private:
  std::vector<bool> begins_;  // per block, and after the last: a unit begins there
  std::size_t most_in_message_ = 1;
};

}  // namespace tutti::algorithms
