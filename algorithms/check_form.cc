// Checks that each plan is well formed by itself: its arrays agree with each other, and its steps use only buffers that
// the rank has. All later checks rely on this.

#include <algorithm>
#include <string>
#include <vector>

#include "algorithms/check_world.h"

namespace tutti::algorithms::checking {
namespace {

/// Checks one rank's plan.
class Form {
 public:
  Form(const World& world, int rank, Problems& report)
      : world_(world), rank_(rank), plan_(world.plans[index(rank)]), report_(report) {}

  void check() {
    if (!shape_fits() || !arrays_fit()) return;
    for (StepId step = 0; step < plan_.steps.size() && !report_.full(); ++step) check_step(step);
    check_waits();
    check_lanes();
  }

 private:
  bool shape_fits() {
    Shape expected = world_.plans[0].shape;
    expected.rank = rank_;
    if (plan_.shape == expected && expected.ranks == world_.ranks && expected.pipeline > 0 && expected.root >= 0 &&
        expected.root < world_.ranks)
      return true;
    report_.problem(rank_, "its plan was built for another shape than rank 0's, or for an impossible one");
    return false;
  }

  bool arrays_fit() {
    const std::size_t steps = plan_.steps.size();
    const auto& begin = plan_.successor_begin;
    const bool fit = plan_.waits_for.size() == steps && plan_.next_on_lane.size() == steps &&
                     plan_.lane_of.size() == steps && begin.size() == steps + 1 && begin.front() == 0 &&
                     begin.back() == plan_.successor.size() && std::is_sorted(begin.begin(), begin.end());
    if (!fit) report_.problem(rank_, "the arrays of its plan do not fit its " + std::to_string(steps) + " steps");
    return fit;
  }

  void check_step(StepId id) {
    const Step& step = plan_.steps[id];
    if (!is_local(step.verb) && (step.peer < 0 || step.peer >= world_.ranks || step.peer == rank_))
      return report_.problem(rank_, id, "its peer must be another rank below " + std::to_string(world_.ranks));
    if (combines(step.verb) && world_.only_moves())
      return report_.problem(rank_, id, "reduces, but " + std::string(name_of(world_.collective)) + " only moves data");

    const int count = writes_dst(step.verb) ? step.dst.count : step.left.count;
    if (writes_dst(step.verb) && !may_touch(id, step.dst, count)) return;
    if (reads_left(step.verb) && !may_touch(id, step.left, count)) return;
    if (reads_right(step.verb) && !may_touch(id, step.right, count)) return;
    if (writes_dst(step.verb) && step.dst.buffer == Buffer::input)
      return report_.problem(rank_, id, "writes " + to_string(step.dst) + ", but input is only read");
    if (reads_left(step.verb) && writes_dst(step.verb)) check_operand(id, step.dst, step.left, true);
    if (reads_right(step.verb)) check_operand(id, step.dst, step.right, false);
  }

  bool may_touch(StepId id, const Blocks& blocks, int count) {
    if (blocks.count != count || count < 1) {
      report_.problem(rank_, id,
                      "has operands of " + std::to_string(count) + " and " + std::to_string(blocks.count) +
                          " blocks; they must be equal and not empty");
      return false;
    }
    const Range has = world_.present(rank_, blocks.buffer);
    if (has.contains(blocks.first, count)) return true;
    std::string text = "touches " + to_string(blocks) + ", but this rank has ";
    if (has.from == has.to)
      text += std::string("no ") + name_of(blocks.buffer);
    else
      text += "only " + to_string({blocks.buffer, has.from, has.to - has.from});
    report_.problem(rank_, id, text);
    return false;
  }

  /// Operands match block by block in size. The destination may be the left operand itself, but not overlap it partly.
  void check_operand(StepId id, const Blocks& dst, const Blocks& operand, bool may_be_dst) {
    for (int i = 0; i < dst.count; ++i) {
      const int expected = world_.size_class(rank_, dst.buffer, dst.first + i);
      if (world_.size_class(rank_, operand.buffer, operand.first + i) == expected) continue;
      return report_.problem(rank_, id,
                             "combines blocks of different sizes: " + to_string({dst.buffer, dst.first + i, 1}) +
                                 " and " + to_string({operand.buffer, operand.first + i, 1}));
    }
    const bool in_scratch = dst.buffer == Buffer::scratch || operand.buffer == Buffer::scratch;
    const bool one_place = dst.buffer == operand.buffer || (!in_scratch && world_.runs_in_place());
    const int distance = dst.first - operand.first;
    if (one_place && distance > -dst.count && distance < dst.count && !(may_be_dst && distance == 0))
      report_.problem(rank_, id,
                      "writes " + to_string(dst) + " while it reads " + to_string(operand) +
                          ", which overlaps (perhaps only in place)");
  }

  void check_waits() {
    std::vector<std::uint32_t> waits(plan_.steps.size(), 0);
    for (const StepId step : plan_.successor) {
      if (step >= plan_.steps.size()) return report_.problem(rank_, "a successor is not one of its steps");
      ++waits[step];
    }
    for (StepId step = 0; step < waits.size() && !report_.full(); ++step)
      if (waits[step] != plan_.waits_for[step])
        report_.problem(rank_, step,
                        "waits for " + std::to_string(plan_.waits_for[step]) + " steps, but is successor of " +
                            std::to_string(waits[step]));
  }

  void check_lanes() {
    std::vector<bool> on_lane(plan_.steps.size(), false);
    std::vector<bool> taken(2 * index(world_.ranks), false);
    for (const Lane& lane : plan_.lanes) {
      if (lane.peer < 0 || lane.peer >= world_.ranks) return wrong(lane, "leads nowhere");
      const std::size_t key = 2 * index(lane.peer) + static_cast<std::size_t>(lane.direction);
      if (taken[key]) return wrong(lane, "is there twice");
      taken[key] = true;
      if (!follow(lane, on_lane)) return wrong(lane, "does not link the steps of that peer");
    }
    for (StepId step = 0; step < plan_.steps.size() && !report_.full(); ++step) {
      if (is_local(plan_.steps[step].verb) && plan_.next_on_lane[step] != no_step)
        report_.problem(rank_, step, "is local, but has a next step on a lane");
      if (!is_local(plan_.steps[step].verb) && !on_lane[step]) report_.problem(rank_, step, "is on no lane");
    }
  }

  void wrong(const Lane& lane, const char* how) {
    const char* name = lane.direction == Direction::out ? "its lane to " : "its lane from ";
    report_.problem(rank_, name + std::to_string(lane.peer) + " " + how);
  }

  /// False if the lane is not a list of exactly its own steps.
  bool follow(const Lane& lane, std::vector<bool>& on_lane) const {
    const std::size_t which = static_cast<std::size_t>(&lane - plan_.lanes.data());
    std::uint32_t seen = 0;
    for (StepId at = lane.first; at != no_step; at = plan_.next_on_lane[at], ++seen) {
      if (at >= plan_.steps.size() || on_lane[at] || plan_.lane_of[at] != which) return false;
      const Step& step = plan_.steps[at];
      const bool fits = lane.direction == Direction::out ? sends(step.verb) : receives(step.verb);
      if (!fits || step.peer != lane.peer) return false;
      on_lane[at] = true;
    }
    return seen == lane.count;
  }

  const World& world_;
  const int rank_;
  const Plan& plan_;
  Problems& report_;
};

}  // namespace

void check_form(const World& world, Problems& report) {
  for (int rank = 0; rank < world.ranks && !report.full(); ++rank) {
    for (const int like : world.plans[index(rank)].scratch_like)
      if (like < 0 || like >= world.blocks)
        return report.problem(rank, "a scratch slot stands for a block that is none");
    Form{world, rank, report}.check();
  }
}

}  // namespace tutti::algorithms::checking
