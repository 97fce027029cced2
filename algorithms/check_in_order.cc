// Do the plans get through if each rank runs its steps one after the other, in the order in which they are listed?
//
// That is what a stream of a GPU does. Each step waits for all before it, so a receive whose message has not come, or
// a send whose link is full, holds up everything behind it. A message is cut so that it fits into a slot.
//
// As in check_order.cc the system has no choices: what is possible stays possible. We run it with one slot per link,
// and grant one more when a rank is stuck at a send. If no rank is, no number of slots helps.

#include <algorithm>
#include <optional>
#include <vector>

#include "algorithms/check_world.h"

namespace tutti::algorithms::checking {
namespace {

/// The order in which steps are listed respects that of the plan.
bool is_in_order(const Plan& plan) {
  for (StepId step = 0; step < plan.steps.size(); ++step) {
    if (plan.next_on_lane[step] <= step) return false;
    for (const StepId next : plan.successors(step))
      if (next <= step) return false;
  }
  return true;
}

class InOrder {
 public:
  InOrder(const World& world, const Run& run) : world_(world), run_(run), next_(index(world.ranks), 0) {
    for (const Plan& plan : world.plans) {
      lanes_at_.push_back(in_flight_.size());
      in_flight_.resize(in_flight_.size() + plan.lanes.size(), 0);
    }
    slots_ = in_flight_.empty() ? 0 : 1;
  }

  std::optional<int> slots() {
    for (int rank = 0; rank < world_.ranks; ++rank) to_try_.push_back(rank);
    do {
      while (!to_try_.empty()) {
        const int rank = to_try_.back();
        to_try_.pop_back();
        while (run_next(rank)) {
        }
      }
    } while (!all_done() && grant_slot());
    return all_done() ? std::optional{slots_} : std::nullopt;
  }

 private:
  bool is_done(int rank) const { return next_[index(rank)] == world_.plans[index(rank)].steps.size(); }
  bool all_done() const {
    for (int rank = 0; rank < world_.ranks; ++rank)
      if (!is_done(rank)) return false;
    return true;
  }
  const Step& next_step(int rank) const { return world_.step(rank, next_[index(rank)]); }
  /// Messages in the slots of the link that a send uses.
  int& in_flight(int rank, StepId send) {
    return in_flight_[lanes_at_[index(rank)] + world_.plans[index(rank)].lane_of[send]];
  }

  bool run_next(int rank) {
    if (is_done(rank)) return false;
    const StepId id = next_[index(rank)];
    const Step& step = world_.step(rank, id);
    if (sends(step.verb)) {
      if (in_flight(rank, id) == slots_) return false;
      ++in_flight(rank, id);
    } else if (receives(step.verb)) {
      const StepId send = run_.partner[world_.number(rank, id)] - world_.base[index(step.peer)];
      if (next_[index(step.peer)] <= send) return false;
      --in_flight(step.peer, send);
    }
    ++next_[index(rank)];
    if (!is_local(step.verb) && !is_done(step.peer) && next_step(step.peer).peer == rank) to_try_.push_back(step.peer);
    return true;
  }

  /// False if no rank lacks a slot.
  bool grant_slot() {
    for (int rank = 0; rank < world_.ranks; ++rank)
      if (!is_done(rank) && sends(next_step(rank).verb)) to_try_.push_back(rank);
    ++slots_;
    return !to_try_.empty();
  }

  const World& world_;
  const Run& run_;
  std::vector<StepId> next_;           // per rank
  std::vector<std::size_t> lanes_at_;  // per rank: its first lane in `in_flight_`
  std::vector<int> in_flight_;
  std::vector<int> to_try_;  // ranks that may go on
  int slots_;
};

}  // namespace

std::optional<int> slots_in_order(const World& world, const Run& run) {
  if (!std::all_of(world.plans.begin(), world.plans.end(), is_in_order)) return {};
  return InOrder{world, run}.slots();
}

}  // namespace tutti::algorithms::checking
