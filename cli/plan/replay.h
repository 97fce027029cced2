#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "algorithms/bounds.h"
#include "algorithms/replay.h"
#include "cli/plan/view.h"

namespace tutti::cli {

/// The cost of messages: `latency`, and their bytes at `bandwidth`.
struct Model {
  std::size_t bytes = 0;       ///< of the whole vector
  double latency_us = 10;      ///< of one message
  double gigabytes_per_s = 1;  ///< of a rank, in each direction
};

/// Neighbouring blocks with equal contents in all frames, at all ranks.
struct Column {
  int first = 0;
  int last = 0;
};

/// "3" or "3-5"
std::string label(const Column& column);

/// Runs of the plans of a view.
struct Replays {
  algorithms::Replay steps;                     ///< every message takes one tick
  algorithms::Replay time;                      ///< ticks are picoseconds of the model
  std::vector<algorithms::ReplayFrame> frames;  ///< of `steps`: one per step
  std::vector<Column> columns;
  Model model;
  bool empty() const { return frames.empty(); }
};

/// Empty if it would take minutes, or if the view is not complete or the plans are wrong.
Replays make_replays(const View& view, const Model& model);

/// The lower bound of the time under the model, in picoseconds.
algorithms::Ticks least_time(const algorithms::Bounds& bounds, const Model& model);

/// "10 us + bytes / 1.25 GB/s"
std::string to_string(const Model& model);

/// After some step, a rank has contributions that it has not added up yet.
bool adds_up_later(const Replays& replays);

/// The messages of a step: "0>1 [3], 1>2 [0]".
std::string arrows_text(const Replays& replays, std::size_t step);

/// The most that any rank sends, receives and adds up, in blocks.
struct Loads {
  int sent = 0;
  int received = 0;
  int reduced = 0;
};
Loads busiest(const View& view);

}  // namespace tutti::cli
