#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "algorithms/check.h"
#include "algorithms/plan.h"

namespace tutti::algorithms {

/// Time in whole units of the caller's choice: exact, so that what happens at once is seen to happen at once.
using Ticks = std::int64_t;

/// The alpha-beta model with one port. A rank sends one message at a time and receives one at a time; a message of k
/// blocks keeps both ends busy for `message + k * block`, and reducing k blocks takes its rank `k * reduced` more.
/// Copies are free. As it stands, every message takes one unit: time then counts steps.
struct Cost {
  Ticks message = 1;
  Ticks block = 0;
  Ticks reduced = 0;
};

struct Message {
  int from = 0;
  int to = 0;
  StepId send = 0;          ///< step of `from`
  StepId recv = 0;          ///< step of `to`
  Blocks sent;              ///< as `from` calls them
  Blocks received;          ///< as `to` does
  std::vector<int> blocks;  ///< columns of what it carries, ascending; none at a barrier
  Ticks begin = 0;          ///< leaves, having waited for what the plan says and for both ports
  Ticks end = 0;            ///< has arrived
  Ticks done = 0;           ///< is in its place, reduced if that is to be
};

struct StepTime {
  Ticks ready = 0;  ///< all that the plan lets it wait for has happened
  Ticks begin = 0;  ///< of a receive: its message is there as well
  Ticks end = 0;
};

/// What a rank has of one block, in input, output or scratch; both are indices into Replay::sets.
struct Held {
  std::uint32_t all = 0;      ///< the ranks whose contributions it has
  std::uint32_t largest = 0;  ///< those of them that are in one value already; less than `all` before a reduction
  friend bool operator==(const Held&, const Held&) = default;
};

struct Change {
  Ticks at = 0;
  int rank = 0;
  int block = 0;
  Held held;
  StepId step = 0;  ///< of `rank`
};

/// All ranks' plans, run: who said what to whom and when, and what each rank held in between.
///
/// Columns are the blocks of the vector; a block of an all_to_all counts as the one that its sender calls so, and a
/// barrier has one column, the ranks of whose arrival a rank knows.
struct Replay {
  std::vector<std::string> problems;  ///< of wrong plans; then there is nothing else
  int ranks = 0;
  int blocks = 0;
  Ticks end = 0;
  std::vector<Message> messages;             ///< as they begin
  std::vector<std::vector<StepTime>> steps;  ///< per rank and step
  std::vector<std::vector<int>> sets;        ///< of ranks, ascending; the first one is empty
  std::vector<Held> start;                   ///< ranks x blocks
  std::vector<Change> changes;               ///< as they happen

  std::size_t cell(int rank, int block) const {
    return static_cast<std::size_t>(rank) * static_cast<std::size_t>(blocks) + static_cast<std::size_t>(block);
  }
};

/// Runs the plans, one per rank, out of place. Takes time and memory as all their steps and places do.
Replay replay(Collective collective, const std::vector<Plan>& plans, Claims claims, const Cost& cost);

/// What is held after each moment at which something changes or a message arrives; the first is the start.
struct Frame {
  Ticks at = 0;
  std::vector<Held> held;             ///< ranks x blocks
  std::vector<std::size_t> messages;  ///< arrived since the frame before
};
std::vector<Frame> frames(const Replay& replay);

}  // namespace tutti::algorithms
