#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "algorithms/check.h"
#include "algorithms/plan.h"

namespace tutti::algorithms {

/// Time in whole units chosen by the caller. It is exact, so that simultaneous events compare equal.
using Ticks = std::int64_t;

/// The alpha-beta model with one port. A rank sends one message at a time and receives one at a time. A message of k
/// blocks keeps both ends busy for `message + k * block`, and reducing k blocks takes its rank another `k * reduced`.
/// Copies are free. With the defaults every message takes one unit, and time counts steps.
struct Cost {
  Ticks message = 1;
  Ticks block = 0;
  Ticks reduced = 0;
};

struct ReplayMessage {
  int from = 0;
  int to = 0;
  StepId send = 0;          ///< step of `from`
  StepId recv = 0;          ///< step of `to`
  Blocks sent;              ///< as `from` numbers them
  Blocks received;          ///< as `to` numbers them
  std::vector<int> blocks;  ///< columns of its contents, ascending; none at a barrier
  Ticks begin = 0;          ///< leaves, after the waits of the plan and for both ports
  Ticks end = 0;            ///< has arrived
  Ticks done = 0;           ///< is in its place, and reduced if it is to be
};

struct StepTime {
  Ticks ready = 0;  ///< all that it waits for by the plan has happened
  Ticks begin = 0;  ///< of a receive: its message has arrived, too
  Ticks end = 0;
};

/// A rank's contents of one block, in input, output or scratch; both are indices into Replay::sets.
struct Held {
  std::uint32_t all = 0;      ///< the ranks whose contributions it has
  std::uint32_t largest = 0;  ///< those of them that are already in one value; fewer than `all` before a reduction
  friend bool operator==(const Held&, const Held&) = default;
};

struct Change {
  Ticks at = 0;
  int rank = 0;
  int block = 0;
  Held held;
  StepId step = 0;  ///< of `rank`
};

/// A run of all ranks' plans: messages with their times, and the contents of each rank's memory in between.
///
/// Columns are the blocks of the vector. A block of an all_to_all has the number that its sender uses. A barrier has
/// one column: the ranks whose arrival a rank knows.
struct Replay {
  std::vector<std::string> problems;  ///< of wrong plans; then there is nothing else
  int ranks = 0;
  int blocks = 0;
  Ticks end = 0;
  std::vector<ReplayMessage> messages;       ///< as they begin
  std::vector<std::vector<StepTime>> steps;  ///< per rank and step
  std::vector<std::vector<int>> sets;        ///< of ranks, ascending; the first one is empty
  std::vector<Held> start;                   ///< ranks x blocks
  std::vector<Change> changes;               ///< as they happen

  std::size_t cell(int rank, int block) const {
    return static_cast<std::size_t>(rank) * static_cast<std::size_t>(blocks) + static_cast<std::size_t>(block);
  }
};

/// Runs the plans, one per rank, out of place. Time and memory are proportional to their steps and places.
Replay replay(Collective collective, const std::vector<Plan>& plans, Claims claims, const Cost& cost);

/// The contents after each moment at which something changes or a message arrives; the first frame is the start.
struct ReplayFrame {
  Ticks at = 0;
  std::vector<Held> held;             ///< ranks x blocks
  std::vector<std::size_t> messages;  ///< arrived since the frame before
};
std::vector<ReplayFrame> frames(const Replay& replay);

}  // namespace tutti::algorithms
