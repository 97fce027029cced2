// Runs plans for the viewer, and summarises the result in numbers.

#include "cli/plan/replay.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "algorithms/describe.h"
#include "cli/base/text.h"

namespace tutti::cli {
namespace {

using algorithms::Cost;
using algorithms::Plan;
using algorithms::Replay;
using algorithms::ReplayFrame;
using algorithms::Step;
using algorithms::Ticks;

constexpr double most_effort = 2e8;  // steps times places that are examined after each

double effort(const std::vector<Plan>& plans) {
  double effort = 0;
  for (const Plan& plan : plans)
    effort += static_cast<double>(plan.steps.size()) *
              (2.0 * plan.shape.ranks * plan.shape.pipeline + static_cast<double>(plan.scratch_like.size()));
  return effort;
}

double picoseconds_of(double bytes, const Model& model) { return bytes / model.gigabytes_per_s * 1000; }

/// Parts have equal size, even fractions of a byte; the tokens of a barrier are empty.
Cost cost_of(const View& view, const Model& model) {
  const double bytes = view.collective == Collective::barrier ? 0 : static_cast<double>(model.bytes);
  const double block = bytes / (view.shape.ranks * view.shape.pipeline);
  return {std::llround(model.latency_us * 1e6), std::llround(picoseconds_of(block, model)), 0};
}

bool alike(const Replay& replay, const std::vector<ReplayFrame>& frames, int a, int b) {
  return std::all_of(frames.begin(), frames.end(), [&](const ReplayFrame& frame) {
    for (int rank = 0; rank < replay.ranks; ++rank)
      if (frame.held[replay.cell(rank, a)] != frame.held[replay.cell(rank, b)]) return false;
    return true;
  });
}

}  // namespace

std::string label(const Column& column) {
  return column.first == column.last ? std::to_string(column.first) : fmt::format("{}-{}", column.first, column.last);
}

Replays make_replays(const View& view, const Model& model) {
  Replays made;
  made.model = model;
  if (!view.complete() || !view.verdict.ok() || effort(view.plans) > most_effort) return made;
  made.steps = algorithms::replay(view.collective, view.plans, view.claims(), Cost{});
  made.time = algorithms::replay(view.collective, view.plans, view.claims(), cost_of(view, model));
  made.frames = algorithms::frames(made.steps);
  for (int block = 0; block < made.steps.blocks; ++block) {
    if (block > 0 && alike(made.steps, made.frames, block - 1, block))
      made.columns.back().last = block;
    else
      made.columns.push_back({block, block});
  }
  return made;
}

Ticks least_time(const algorithms::Bounds& bounds, const Model& model) {
  const double moved = std::max(bounds.sent, bounds.received) * static_cast<double>(model.bytes);
  return std::llround(std::max(bounds.steps * model.latency_us * 1e6, picoseconds_of(moved, model)));
}

std::string to_string(const Model& model) {
  return fmt::format("{:.4g} us + bytes / {:.4g} GB/s", model.latency_us, model.gigabytes_per_s);
}

bool adds_up_later(const Replays& replays) {
  return std::any_of(replays.frames.begin(), replays.frames.end(), [](const ReplayFrame& frame) {
    return std::any_of(frame.held.begin(), frame.held.end(),
                       [](const algorithms::Held& held) { return held.all != held.largest; });
  });
}

std::string arrows_text(const Replays& replays, std::size_t step) {
  std::string text;
  for (const std::size_t i : replays.frames[step].messages) {
    const algorithms::ReplayMessage& message = replays.steps.messages[i];
    std::string blocks = compress(message.blocks);
    std::erase(blocks, ' ');
    text += fmt::format("{}{}>{}{}", text.empty() ? "" : ", ", message.from, message.to,
                        blocks.empty() ? "" : fmt::format(" [{}]", blocks));
  }
  return text;
}

Loads busiest(const View& view) {
  Loads most;
  for (const Plan& plan : view.plans) {
    Loads load;
    for (const Step& step : plan.steps) {
      if (algorithms::sends(step.verb)) load.sent += step.left.count;
      if (algorithms::receives(step.verb)) load.received += step.dst.count;
      if (algorithms::combines(step.verb)) load.reduced += step.dst.count;
    }
    most.sent = std::max(most.sent, load.sent);
    most.received = std::max(most.received, load.received);
    most.reduced = std::max(most.reduced, load.reduced);
  }
  return most;
}

}  // namespace tutti::cli
