#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "algorithms/catalogue.h"

namespace tutti::algorithms {

/// What the checker found out about the plans of all ranks of one collective.
struct Verdict {
  std::vector<std::string> problems;  ///< empty: proved. Each names rank, step and block.
  int slots = 0;                      ///< smallest number of messages per link in flight without deadlock
  bool needs_room = false;            ///< deadlocks where a message is larger than all that a link can hold
  std::size_t messages = 0;           ///< in all
  std::size_t busiest_blocks = 0;     ///< most blocks that one rank sends
  int rounds = 0;                     ///< messages on the longest dependency path
  std::size_t scratch_blocks = 0;     ///< most scratch slots at one rank
  std::size_t searched = 0;           ///< steps looked at to find which of two comes first: what proving it took
  bool ok() const { return problems.empty(); }
};

/// What an algorithm claims beyond its collective: the flags of the same names in Entry.
struct Claims {
  bool equal_parts = false;  ///< may take all parts of an all_to_all to be of one size
  bool rank_order = false;   ///< each result is the left fold in rank order
};

/// Builds all ranks' plans and proves them: sends match receives, every contribution arrives exactly once, no
/// deadlock with `Verdict::slots` messages per link, no two unordered steps touch one place with a write; in place
/// and out of place.
Verdict check(const Entry& entry, int ranks, int root = 0, int pipeline = 1, int radix = 2);

/// What somebody else calls the steps, per rank: "thread block 2 step 5" where the plan came from a program of such.
using StepNames = std::vector<std::vector<std::string>>;

/// The same for given plans, one per rank. Problems name steps by `names` if there are any, else by their numbers.
Verdict check(Collective collective, const std::vector<Plan>& plans, Claims claims = {},
              const StepNames* names = nullptr);

}  // namespace tutti::algorithms
