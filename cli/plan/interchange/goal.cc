// Plans as GOAL, the schedules of LogGOPSim (Hoefler, Siebert, Lumsdaine: Group operation assembly language, 2009).
//
// Every step becomes one operation, a recv_reduce two: the receive and the calculation. The tag of a message is its
// number on its link. So a send meets the receive that the link would give it, in whatever order the simulator runs
// them. "b requires a": b begins when a is complete. "b irequires a": b begins when a has begun, which is the order of
// a lane.

#include "cli/plan/interchange/goal.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "algorithms/describe.h"
#include "lib/base/collective_traits.h"
#include "lib/collective/binding.h"

namespace tutti::cli::interchange {
namespace {

using algorithms::Blocks;
using algorithms::Plan;
using algorithms::Step;
using algorithms::StepId;
using algorithms::Verb;

/// Cuts a call of `bytes` bytes into blocks as the library does.
class BlockSizes {
 public:
  BlockSizes(Collective collective, const algorithms::Shape& shape, std::size_t bytes) {
    const std::size_t parts = detail::traits_of(collective).has_parts() ? static_cast<std::size_t>(shape.ranks) : 1;
    partition_ = detail::Partition::of(collective, bytes / parts, shape.ranks, shape.pipeline, 1);
  }
  /// Never 0, since LogGOPSim counts the gaps between the bytes of a message. The messages of a barrier are empty.
  std::size_t of(const Plan& plan, const Blocks& blocks) const {
    std::size_t bytes = 0;
    for (int i = 0; i < blocks.count; ++i) {
      const int block = blocks.first + i;
      const int like =
          blocks.buffer == algorithms::Buffer::scratch ? plan.scratch_like[static_cast<std::size_t>(block)] : block;
      bytes += partition_.offset(like + 1) - partition_.offset(like);
    }
    return std::max<std::size_t>(bytes, 1);
  }

 private:
  detail::Partition partition_;
};

/// "l7", or "l7c" if the step ends with a separate calculation.
std::string end_of(const Plan& plan, StepId step) {
  return fmt::format("l{}{}", step, plan.steps[step].verb == Verb::recv_reduce ? "c" : "");
}

void write_operations(std::string& text, const Plan& plan, const BlockSizes& blocks, double nanoseconds_per_byte) {
  std::vector<std::size_t> on_lane(plan.lanes.size(), 0);
  const auto out = std::back_inserter(text);
  for (StepId id = 0; id < plan.steps.size(); ++id) {
    const Step& step = plan.steps[id];
    const std::size_t bytes = blocks.of(plan, algorithms::writes_dst(step.verb) ? step.dst : step.left);
    if (!algorithms::is_local(step.verb))
      fmt::format_to(out, "l{}: {} {}b {} {} tag {}\n", id, algorithms::sends(step.verb) ? "send" : "recv", bytes,
                     algorithms::sends(step.verb) ? "to" : "from", step.peer, on_lane[plan.lane_of[id]]++);
    if (algorithms::is_local(step.verb) || algorithms::combines(step.verb))
      fmt::format_to(out, "{}: calc {}\n", end_of(plan, id),
                     std::llround(static_cast<double>(bytes) * nanoseconds_per_byte));
  }
}

void write_order(std::string& text, const Plan& plan) {
  const auto out = std::back_inserter(text);
  for (StepId id = 0; id < plan.steps.size(); ++id) {
    if (plan.steps[id].verb == Verb::recv_reduce) fmt::format_to(out, "l{}c requires l{}\n", id, id);
    if (plan.next_on_lane[id] != algorithms::no_step)
      fmt::format_to(out, "l{} irequires l{}\n", plan.next_on_lane[id], id);
    for (const StepId next : plan.successors(id)) fmt::format_to(out, "l{} requires {}\n", next, end_of(plan, id));
  }
}

}  // namespace

std::string goal(Collective collective, const std::vector<Plan>& plans, const GoalSizes& sizes) {
  const BlockSizes blocks{collective, plans.at(0).shape, sizes.bytes};
  std::string text = fmt::format("num_ranks {}\n", plans.size());
  for (const Plan& plan : plans) {
    fmt::format_to(std::back_inserter(text), "\nrank {} {{\n", plan.shape.rank);
    write_operations(text, plan, blocks, sizes.nanoseconds_per_byte);
    write_order(text, plan);
    text += "}\n";
  }
  return text;
}

}  // namespace tutti::cli::interchange
