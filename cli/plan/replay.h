#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "algorithms/bounds.h"
#include "algorithms/replay.h"
#include "cli/plan/view.h"

namespace tutti::cli {

/// What messages cost: `latency` and what their bytes take at `bandwidth`.
struct Model {
  std::size_t bytes = 0;       ///< of the whole vector
  double latency_us = 10;      ///< of one message
  double gigabytes_per_s = 1;  ///< of a rank's way out, and of its way in
};

/// Blocks beside each other that fare alike in all frames, at all ranks.
struct Column {
  int first = 0;
  int last = 0;
};

/// "3" or "3-5"
std::string label(const Column& column);

/// The plans of a view, run.
struct Replays {
  algorithms::Replay steps;               ///< every message takes one tick
  algorithms::Replay time;                ///< ticks are picoseconds of the model
  std::vector<algorithms::Frame> frames;  ///< of `steps`: one per step
  std::vector<Column> columns;
  Model model;
  bool empty() const { return frames.empty(); }
};

/// Empty where that would take minutes: view not complete, plans wrong, too many steps and places.
Replays make_replays(const View& view, const Model& model);

/// The least time that the bounds leave under the model, in picoseconds.
algorithms::Ticks least_time(const algorithms::Bounds& bounds, const Model& model);

/// "10 us + bytes / 1.25 GB/s"
std::string to_string(const Model& model);

/// Whether, after some step, a rank has contributions that it has not added up yet.
bool adds_up_later(const Replays& replays);

/// The messages of a step: "0>1 [3], 1>2 [0]".
std::string arrows_text(const Replays& replays, std::size_t step);

/// Most that a rank sends, receives and adds up, in blocks.
struct Loads {
  int sent = 0;
  int received = 0;
  int reduced = 0;
};
Loads busiest(const View& view);

}  // namespace tutti::cli
