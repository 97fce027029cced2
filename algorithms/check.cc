// The checker proves the plans of all ranks together. It checks the following in this order, and each check relies on
// those before it:
//
//   form      each plan's arrays agree; steps touch only what the rank has                     check_form.cc
//   matching  the k-th send of a link meets the k-th receive, block by block of one size        check_order.cc
//   progress  everything gets through, and how many slots per link that takes                   check_order.cc
//             and how many if each rank runs its steps in the order of their list               check_in_order.cc
//   races     no two steps that may overlap touch one place, one of them writing                check_races.cc
//   values    every contribution arrives exactly once, out of place and in place                check_values.cc
//             and if not, where it got lost                                                     check_lost.cc
//
// Each check takes time nearly linear in the blocks that the plans use: all algorithms on up to 64 ranks and with all
// roots take seconds. Data, sizes and addresses do not appear, so the proof holds for every message.

#include "algorithms/check.h"

#include <algorithm>
#include <string>

#include "algorithms/check_world.h"

namespace tutti::algorithms {
namespace checking {

World::World(Collective which, std::span<const Plan> all, Claims what, const StepNames* called)
    : collective(which),
      traits(detail::traits_of(which)),
      claims(what),
      plans(all),
      names(called),
      ranks(static_cast<int>(all.size())),
      root(all[0].shape.root),
      pipeline(all[0].shape.pipeline),
      blocks(ranks * pipeline) {
  base.push_back(0);
  for (const Plan& plan : plans) base.push_back(base.back() + static_cast<std::uint32_t>(plan.steps.size()));
}

Range World::present(int rank, Buffer buffer) const {
  if (buffer == Buffer::scratch) return {0, static_cast<int>(plans[index(rank)].scratch_like.size())};
  const bool in = buffer == Buffer::input;
  if (collective == Collective::barrier) return in ? own_part(rank) : Range{};
  if (in && traits.in_place == InPlace::always) return {};
  const detail::BufferTraits& held = in ? traits.input : traits.output;
  if (!held.is_at(rank, root)) return {};
  return held.extent == detail::Extent::own_part ? own_part(rank) : Range{0, blocks};
}

int World::size_class(int rank, Buffer buffer, int block) const {
  if (collective == Collective::barrier) return 0;
  const int like = buffer == Buffer::scratch ? plans[index(rank)].scratch_like[index(block)] : block;
  if (!traits.exchanges()) return like;
  const int part = like / pipeline;
  const int piece = like % pipeline;
  if (claims.equal_parts) return piece;
  const bool arriving = buffer == Buffer::output;
  return ((arriving ? part : rank) * ranks + (arriving ? rank : part)) * pipeline + piece;
}

void Problems::problem(const std::string& text) {
  if (!full()) problems_.push_back(std::string(name_of(world_.collective)) + ": " + text);
}

void Problems::problem(int rank, const std::string& text) { problem("rank " + std::to_string(rank) + ": " + text); }

void Problems::problem(int rank, StepId step, const std::string& text) {
  problem(where(world_, rank, step) + ": " + text);
}

std::string step_text(const World& world, int rank, StepId step) {
  const std::string name = world.names ? (*world.names)[index(rank)][step] : "step " + std::to_string(step);
  return name + " (" + label(world.step(rank, step)) + ")";
}

std::string where(const World& world, int rank, StepId step) {
  return "rank " + std::to_string(rank) + " " + step_text(world, rank, step);
}

/// No rank may leave before all have arrived: the end of each rank's plan must depend on the beginning of every rank's
/// plan.
void check_barrier(const World& world, const Run& run, Problems& report) {
  using Met = std::vector<bool>;  // the ranks whose beginning a step, or a rank's end, comes after
  const auto join = [](Met& to, const Met& from) {
    for (std::size_t rank = 0; rank < from.size(); ++rank)
      if (from[rank]) to[rank] = true;
  };
  std::vector<Met> at_step(world.steps(), Met(index(world.ranks), false));
  std::vector<Met> at_end(index(world.ranks), Met(index(world.ranks), false));
  for (int rank = 0; rank < world.ranks; ++rank) at_end[index(rank)][index(rank)] = true;
  for (const RankStep& at : run.order) {
    const Plan& plan = world.plans[index(at.rank)];
    Met& met = at_step[world.number(at.rank, at.step)];
    met[index(at.rank)] = true;
    join(at_end[index(at.rank)], met);
    for (const StepId next : plan.successors(at.step)) join(at_step[world.number(at.rank, next)], met);
    const StepId on_lane = plan.next_on_lane[at.step];
    if (on_lane != no_step) join(at_step[world.number(at.rank, on_lane)], met);
    if (sends(plan.steps[at.step].verb)) join(at_step[run.partner[world.number(at.rank, at.step)]], met);
  }
  for (int rank = 0; rank < world.ranks; ++rank)
    for (int other = 0; other < world.ranks && !report.full(); ++other)
      if (!at_end[index(rank)][index(other)])
        report.problem(rank, "may leave before rank " + std::to_string(other) + " has come");
}

namespace {

void count_messages(const World& world, Verdict& verdict) {
  for (const Plan& plan : world.plans) {
    std::size_t blocks = 0;
    for (const Step& step : plan.steps) {
      if (!sends(step.verb)) continue;
      ++verdict.messages;
      blocks += index(step.left.count);
    }
    verdict.busiest_blocks = std::max(verdict.busiest_blocks, blocks);
    verdict.scratch_blocks = std::max(verdict.scratch_blocks, plan.scratch_like.size());
  }
}

/// Per step, by number: messages on the longest path to its completion.
std::vector<int> count_rounds(const World& world, const Run& run) {
  std::vector<int> rounds(world.steps(), 0);
  const auto pass_on = [&](std::uint32_t to, int messages) { rounds[to] = std::max(rounds[to], messages); };
  for (const RankStep& at : run.order) {
    const Plan& plan = world.plans[index(at.rank)];
    const int here = rounds[world.number(at.rank, at.step)];
    for (const StepId next : plan.successors(at.step)) pass_on(world.number(at.rank, next), here);
    const StepId on_lane = plan.next_on_lane[at.step];
    if (on_lane != no_step) pass_on(world.number(at.rank, on_lane), here);
    if (sends(plan.steps[at.step].verb)) pass_on(run.partner[world.number(at.rank, at.step)], here + 1);
  }
  return rounds;
}

void prove(const World& world, Verdict& verdict, Problems& report) {
  Run run;
  check_form(world, report);
  if (!report.clean()) return;
  count_messages(world, verdict);
  check_matching(world, run, report);
  if (!report.clean()) return;
  check_progress(world, run, report);
  if (!report.clean()) return;
  verdict.slots = run.slots;
  verdict.needs_room = needs_room(world);
  verdict.in_order = slots_in_order(world, run);
  const std::vector<int> rounds = count_rounds(world, run);
  verdict.rounds = rounds.empty() ? 0 : *std::max_element(rounds.begin(), rounds.end());
  verdict.searched = check_races(world, run, report);
  if (!report.clean()) return;
  check_values(world, run, false, report);
  if (world.runs_in_place()) check_values(world, run, true, report);
  if (world.collective == Collective::barrier) check_barrier(world, run, report);
}

}  // namespace
}  // namespace checking

Verdict check(Collective collective, const std::vector<Plan>& plans, Claims claims, const StepNames* names) {
  Verdict verdict;
  if (plans.empty()) {
    verdict.problems.push_back(std::string(name_of(collective)) + ": there are no plans to check");
    return verdict;
  }
  const checking::World world(collective, plans, claims, names);
  checking::Problems report(world);
  checking::prove(world, verdict, report);
  verdict.problems = std::move(report).take();
  return verdict;
}

Verdict check(const Choice& choice, int ranks, int root) {
  std::vector<Plan> plans;
  plans.reserve(checking::index(ranks));
  for (int rank = 0; rank < ranks; ++rank) plans.push_back(choice.entry->build(shape_of(choice, rank, ranks, root)));
  return check(choice.entry->collective, plans, {choice.entry->equal_parts, choice.entry->rank_order});
}

Verdict check(const Entry& entry, int ranks, int root, int pipeline, int radix) {
  return check({.entry = &entry, .radix = radix, .pipeline = pipeline}, ranks, root);
}

}  // namespace tutti::algorithms
