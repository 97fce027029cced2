// The clock is run at few ratios: if two of them have the same pace, so have all between them.

#include "algorithms/replay_paces.h"

#include <algorithm>
#include <cmath>

#include "algorithms/check_world.h"
#include "algorithms/replay_clock.h"

namespace tutti::algorithms {
namespace {

constexpr int first_ratio = -most_octaves * ratio_steps;
constexpr int last_ratio = most_octaves * ratio_steps;
constexpr int always_looked_at = 20;  // largest distance between two ratios that are examined

class Paces {
 public:
  Paces(const checking::World& world, const checking::Run& run) : world_(world), run_(run) {}

  std::vector<Pace> find() && {
    Pace before = at(first_ratio);
    paces_.push_back(before);
    for (int ratio = first_ratio; ratio < last_ratio; ratio += always_looked_at) {
      const Pace after = at(ratio + always_looked_at);
      between(before, after);
      before = after;
    }
    return std::move(paces_);
  }

 private:
  static bool alike(const Pace& a, const Pace& b) { return a.messages == b.messages && a.blocks == b.blocks; }

  void between(const Pace& before, const Pace& after) {
    if (alike(before, after)) return;
    if (after.from - before.from == 1) return paces_.push_back(after);
    const Pace middle = at((before.from + after.from) / 2);
    between(before, middle);
    between(middle, after);
  }

  /// A block costs one tick more than a multiple of `unit`, a message a multiple: the total shows how many there were
  /// of each.
  Pace at(int ratio) const {
    constexpr Ticks unit = Ticks{1} << 24;
    constexpr double fine = 1 << 12;
    const double larger = std::exp2(std::abs(ratio) / static_cast<double>(ratio_steps)) * fine;
    const auto small = static_cast<Ticks>(fine), large = static_cast<Ticks>(larger);
    const Cost cost{(ratio < 0 ? large : small) * unit, (ratio < 0 ? small : large) * unit + 1, 0};
    Clock clock(world_, run_, cost);
    clock.run();
    Ticks end = 0;
    for (const std::vector<StepTime>& steps : clock.take_steps())
      for (const StepTime& step : steps) end = std::max(end, step.end);
    const Ticks blocks = end % unit;
    return {ratio, static_cast<int>((end - blocks * cost.block) / cost.message), static_cast<int>(blocks)};
  }

  const checking::World& world_;
  const checking::Run& run_;
  std::vector<Pace> paces_;
};

}  // namespace

std::vector<Pace> paces(Collective collective, const std::vector<Plan>& plans, Claims claims) {
  const checking::World world(collective, plans, claims);
  checking::Problems report(world);
  checking::Run run;
  check_form(world, report);
  if (report.clean()) check_matching(world, run, report);
  if (report.clean()) check_progress(world, run, report);
  if (!report.clean()) return {};
  return Paces(world, run).find();
}

}  // namespace tutti::algorithms
