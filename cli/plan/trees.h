#pragma once

#include <string>
#include <vector>

#include "algorithms/plan.h"
#include "tutti/types.h"

namespace tutti::cli {

/// The tree along which some blocks travel, as found in the messages of the plans.
struct Tree {
  int root = 0;
  std::vector<std::vector<int>> children;  ///< per rank
  std::vector<int> blocks;                 ///< which blocks; empty: all of them together
  bool up_and_down = false;                ///< partial results travel it upwards before the result comes down
  friend bool operator==(const Tree&, const Tree&) = default;
};

/// The trees of a collective, at most `at_most` different ones; empty if the messages do not form so few trees.
std::vector<Tree> find_trees(Collective collective, const std::vector<algorithms::Plan>& plans, std::size_t at_most);

/// One rank per line, under its parent.
std::string draw(const Tree& tree);

}  // namespace tutti::cli
