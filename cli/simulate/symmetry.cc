#include "cli/simulate/symmetry.h"

#include <algorithm>
#include <map>
#include <utility>

#include "algorithms/describe.h"

namespace tutti::cli::simulate {
namespace {

using algorithms::Blocks;
using algorithms::Buffer;
using algorithms::Plan;
using algorithms::Step;
using algorithms::StepId;

constexpr double steps_to_compare = 3e6;

/// The block of the vector that stands for the first one of a range: the block itself, or the one that gives a slot its
/// size.
int first_of(const Plan& plan, const Blocks& blocks) {
  return blocks.buffer == Buffer::scratch ? plan.scratch_like[static_cast<std::size_t>(blocks.first)] : blocks.first;
}

bool same_order(const Plan& a, const Plan& b) {
  return a.steps.size() == b.steps.size() && a.waits_for == b.waits_for && a.successor == b.successor &&
         a.successor_begin == b.successor_begin && a.next_on_lane == b.next_on_lane && a.lane_of == b.lane_of;
}

/// Whether `plan` is `original`, that of rank 0, as seen from another rank.
bool is_rotated(const Plan& original, const Plan& plan) {
  if (!same_order(original, plan)) return false;
  const int rank = plan.shape.rank, ranks = plan.shape.ranks, pipeline = plan.shape.pipeline;
  const int blocks = ranks * pipeline;
  for (StepId id = 0; id < plan.steps.size(); ++id) {
    const Step& was = original.steps[id];
    const Step& is = plan.steps[id];
    if (was.verb != is.verb) return false;
    if (!algorithms::is_local(is.verb) && is.peer != (was.peer + rank) % ranks) return false;
    const Blocks& from = range_of(was);
    const Blocks& to = range_of(is);
    if (from.buffer != to.buffer || from.count != to.count) return false;
    if (first_of(plan, to) != (first_of(original, from) + rank * pipeline) % blocks) return false;
  }
  return true;
}

/// The k-th receive from distance d behind is the k-th send to distance d ahead, which must come before it.
bool match(std::vector<Beat>& beats, int ranks) {
  std::map<int, std::pair<std::vector<std::uint32_t>, std::size_t>> sent;  // by distance: sends, how many are matched
  for (std::uint32_t i = 0; i < beats.size(); ++i) {
    Beat& beat = beats[i];
    if (algorithms::sends(beat.verb)) sent[beat.ahead].first.push_back(i);
    if (!algorithms::receives(beat.verb)) continue;
    auto& [which, taken] = sent[(ranks - beat.ahead) % ranks];
    if (taken == which.size()) return false;
    beat.match = which[taken++];
  }
  return std::all_of(sent.begin(), sent.end(),
                     [](const auto& one) { return one.second.first.size() == one.second.second; });
}

/// Inverts the lists of successors.
void note_befores(const Plan& plan, Rotation& rotation) {
  std::vector<std::uint32_t> next;
  for (StepId id = 0; id < plan.steps.size(); ++id)
    rotation.beats[id + 1].befores = rotation.beats[id].befores + plan.waits_for[id];
  for (const Beat& beat : rotation.beats) next.push_back(beat.befores);
  rotation.befores.resize(rotation.beats.back().befores);
  for (StepId id = 0; id < plan.steps.size(); ++id)
    for (const StepId after : plan.successors(id)) rotation.befores[next[after]++] = id;
}

}  // namespace

std::optional<Rotation> find_rotation(const SimulatedCall& simulated) {
  const Plan original = simulated.plan(0);
  const int pipeline = simulated.pipeline();
  Rotation rotation;
  for (StepId id = 0; id < original.steps.size(); ++id) {
    const Step& step = original.steps[id];
    const Blocks& range = range_of(step);
    const int first = first_of(original, range);
    // A range of more blocks than one part might wrap around at some rank.
    if (range.count > pipeline - first % pipeline) return {};
    rotation.beats.push_back({.verb = step.verb,
                              .ahead = algorithms::is_local(step.verb) ? 0 : step.peer,
                              .part = first / pipeline,
                              .piece = first % pipeline,
                              .count = range.count});
  }
  if (!match(rotation.beats, simulated.ranks)) return {};
  rotation.beats.emplace_back();
  note_befores(original, rotation);

  const double compared = steps_to_compare / static_cast<double>(original.steps.size() + 1);
  const int every = std::max(1, static_cast<int>(simulated.ranks / std::max(8.0, compared)));
  for (int rank = 1; rank < simulated.ranks; rank += every)
    if (!is_rotated(original, simulated.plan(rank))) return {};
  if (simulated.ranks > 1 && !is_rotated(original, simulated.plan(simulated.ranks - 1))) return {};
  return rotation;
}

}  // namespace tutti::cli::simulate
