#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/catalogue.h"

namespace tutti::algorithms {

/// The result of checking the plans of all ranks of one collective.
struct Verdict {
  std::vector<std::string> problems;  ///< empty: proved. Each names rank, step and block.
  int slots = 0;                      ///< smallest number of messages per link in flight without deadlock
  bool needs_room = false;            ///< deadlocks if a message is larger than all that a link can hold
  /// The same number as `slots` if each rank runs its steps one after the other, as they are listed: as the commands of
  /// one stream. None: that deadlocks, or a step would come before one that it waits for.
  std::optional<int> in_order;
  std::size_t messages = 0;        ///< in all
  std::size_t busiest_blocks = 0;  ///< most blocks that one rank sends
  int rounds = 0;                  ///< messages on the longest dependency path
  std::size_t scratch_blocks = 0;  ///< most scratch slots at one rank
  std::size_t searched = 0;        ///< steps examined to find which of two comes first, as a measure of the cost
  bool ok() const { return problems.empty(); }
};

/// What an algorithm claims beyond its collective: the flags of the same names in Entry.
struct Claims {
  bool equal_parts = false;  ///< may assume that all parts of an all_to_all have one size
  bool rank_order = false;   ///< each result is the left fold in rank order
};

/// Builds and proves the plans of all ranks: sends match receives, every contribution arrives exactly once, there is no
/// deadlock with `Verdict::slots` messages per link, and no two unordered steps use one place if one of them writes.
/// All this is proved in place and out of place.
Verdict check(const Choice& choice, int ranks, int root = 0);
Verdict check(const Entry& entry, int ranks, int root = 0, int pipeline = 1, int radix = 2);

/// Foreign names of the steps, per rank: "thread block 2 step 5" if the plan came from an MSCCL program.
using StepNames = std::vector<std::vector<std::string>>;

/// The same for given plans, one per rank. Problems name steps by `names`, or by their numbers if there are none.
Verdict check(Collective collective, const std::vector<Plan>& plans, Claims claims = {},
              const StepNames* names = nullptr);

}  // namespace tutti::algorithms
