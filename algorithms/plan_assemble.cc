#include "algorithms/plan_assemble.h"

#include <algorithm>
#include <map>
#include <utility>

#include "algorithms/describe.h"

namespace tutti::algorithms {

Plan assemble(const Shape& shape, std::vector<Step> steps, std::vector<Edge> edges, std::vector<int> scratch_like) {
  Plan plan;
  plan.shape = shape;
  plan.steps = std::move(steps);
  plan.scratch_like = std::move(scratch_like);
  const std::size_t count = plan.steps.size();

  std::ranges::sort(edges, {}, [](const Edge& edge) { return std::pair{edge.before, edge.after}; });
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  plan.waits_for.assign(count, 0);
  plan.successor_begin.assign(count + 1, 0);
  for (const Edge& edge : edges) {
    ++plan.waits_for[edge.after];
    ++plan.successor_begin[edge.before + 1];
    plan.successor.push_back(edge.after);
  }
  for (std::size_t step = 0; step < count; ++step) plan.successor_begin[step + 1] += plan.successor_begin[step];

  plan.next_on_lane.assign(count, no_step);
  plan.lane_of.assign(count, 0);
  std::map<std::pair<int, Direction>, std::uint32_t> lane_of;
  std::vector<StepId> last;  // per lane
  for (StepId id = 0; id < count; ++id) {
    const Step& step = plan.steps[id];
    if (is_local(step.verb)) continue;
    const Direction direction = sends(step.verb) ? Direction::out : Direction::in;
    const auto [at, is_new] =
        lane_of.try_emplace({step.peer, direction}, static_cast<std::uint32_t>(plan.lanes.size()));
    if (is_new) {
      plan.lanes.push_back({step.peer, direction, id, 0});
      last.push_back(id);
    } else {
      plan.next_on_lane[std::exchange(last[at->second], id)] = id;
    }
    plan.lane_of[id] = at->second;
    ++plan.lanes[at->second].count;
  }
  return plan;
}

}  // namespace tutti::algorithms
