#include "tests/algorithms/mutants.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "algorithms/describe.h"

namespace tutti::algorithms::testing {
namespace {

constexpr int operands = 3;
constexpr std::array kind_names = {"drop", "duplicate", "redirect", "swap", "shift", "rebuffer", "reverb", "unorder"};

Blocks& operand(Step& step, int which) { return which == 0 ? step.dst : which == 1 ? step.left : step.right; }
const Blocks& operand(const Step& step, int which) {
  return which == 0 ? step.dst : which == 1 ? step.left : step.right;
}
bool uses(const Step& step, int which) {
  if (which == 0) return writes_dst(step.verb);
  return which == 1 ? reads_left(step.verb) : reads_right(step.verb);
}

int block_count(const Plan& plan) { return plan.shape.ranks * plan.shape.pipeline; }
int slot_count(const Plan& plan) { return static_cast<int>(plan.scratch_like.size()); }

bool redirect(Step& step, const Plan& plan, int variant) {
  const int ranks = plan.shape.ranks;
  const int before = step.peer;
  for (int moves = 0; moves <= variant; ++moves) {
    step.peer = (step.peer + 1) % ranks;
    if (step.peer == plan.shape.rank) step.peer = (step.peer + 1) % ranks;
  }
  return step.peer != before;
}

bool shift(Step& step, const Plan& plan, int variant) {
  Blocks& blocks = operand(step, variant / 2);
  const int by = variant % 2 == 0 ? 1 : -1;
  if (blocks.buffer != Buffer::scratch) {
    blocks.first = (blocks.first + by + block_count(plan)) % block_count(plan);
    return block_count(plan) > 1;
  }
  blocks.first += by;
  return blocks.first >= 0 && blocks.first + blocks.count <= slot_count(plan);
}

bool rebuffer(Step& step, const Plan& plan, int variant) {
  Blocks& blocks = operand(step, variant / 2);
  constexpr std::array others = {Buffer::output,  Buffer::scratch, Buffer::input,
                                 Buffer::scratch, Buffer::input,   Buffer::output};
  blocks.buffer = others[2 * static_cast<std::size_t>(blocks.buffer) + static_cast<std::size_t>(variant % 2)];
  const int most = blocks.buffer == Buffer::scratch ? slot_count(plan) : block_count(plan);
  return blocks.first + blocks.count <= most;
}

void reverb(Step& step) {
  switch (step.verb) {
    case Verb::recv:
      step.verb = Verb::recv_reduce;
      step.left = step.dst;
      return;
    case Verb::recv_reduce:
      step.verb = Verb::recv;
      step.left = {};
      return;
    case Verb::copy:
      step.verb = Verb::reduce;
      step.right = std::exchange(step.left, step.dst);
      return;
    case Verb::reduce:
      step.verb = Verb::copy;
      step.left = std::exchange(step.right, {});
      return;
    case Verb::send:
      return;
  }
}

Plan without_edge(const Plan& plan, StepId from, int which) {
  Plan changed = plan;
  const std::uint32_t at = plan.successor_begin[from] + static_cast<std::uint32_t>(which);
  --changed.waits_for[plan.successor[at]];
  changed.successor.erase(changed.successor.begin() + at);
  for (std::size_t step = from + 1; step < changed.successor_begin.size(); ++step) --changed.successor_begin[step];
  return changed;
}

}  // namespace

std::string to_string(const Mutation& mutation) {
  return std::string(kind_names[static_cast<std::size_t>(mutation.kind)]) + " (variant " +
         std::to_string(mutation.variant) + ") of rank " + std::to_string(mutation.rank) + " step " +
         std::to_string(mutation.step);
}

std::vector<Mutation> all_mutations(const Plan& plan) {
  std::vector<Mutation> mutations;
  const int rank = plan.shape.rank;
  for (StepId id = 0; id < plan.steps.size(); ++id) {
    const Step& step = plan.steps[id];
    const auto add = [&](Mutation::Kind kind, int variant = 0) { mutations.push_back({kind, rank, id, variant}); };
    add(Mutation::Kind::drop);
    add(Mutation::Kind::duplicate);
    if (!is_local(step.verb) && plan.shape.ranks > 2) {
      add(Mutation::Kind::redirect, 0);
      add(Mutation::Kind::redirect, 1);
    }
    if (id + 1 < plan.steps.size()) add(Mutation::Kind::swap);
    for (int which = 0; which < operands; ++which) {
      if (!uses(step, which)) continue;
      for (int variant = 2 * which; variant < 2 * which + 2; ++variant) {
        add(Mutation::Kind::shift, variant);
        add(Mutation::Kind::rebuffer, variant);
      }
    }
    if (step.verb != Verb::send) add(Mutation::Kind::reverb);
    for (std::size_t edge = 0; edge < plan.successors(id).size(); ++edge)
      add(Mutation::Kind::unorder, static_cast<int>(edge));
  }
  return mutations;
}

std::optional<Plan> apply(const Mutation& mutation, Collective collective, const Plan& plan) {
  std::vector<Step> steps = plan.steps;
  Step& step = steps[mutation.step];
  const auto at = steps.begin() + mutation.step;
  bool sensible = true;
  switch (mutation.kind) {
    case Mutation::Kind::drop:
      steps.erase(at);
      break;
    case Mutation::Kind::duplicate:
      steps.insert(at, Step{step});
      break;
    case Mutation::Kind::redirect:
      sensible = redirect(step, plan, mutation.variant);
      break;
    case Mutation::Kind::swap:
      std::iter_swap(at, at + 1);
      break;
    case Mutation::Kind::shift:
      sensible = shift(step, plan, mutation.variant);
      break;
    case Mutation::Kind::rebuffer:
      sensible = rebuffer(step, plan, mutation.variant);
      break;
    case Mutation::Kind::reverb:
      reverb(step);
      break;
    case Mutation::Kind::unorder:
      return without_edge(plan, mutation.step, mutation.variant);
  }
  if (!sensible) return std::nullopt;
  return rebuild(collective, plan, steps);
}

Plan rebuild(Collective collective, const Plan& plan, const std::vector<Step>& steps) {
  PlanBuilder builder{plan.shape, detail::traits_of(collective).in_place};
  for (const int like : plan.scratch_like) builder.scratch({Buffer::output, like, 1});
  for (const Step& step : steps) builder.add(step);
  return std::move(builder).build();
}

bool same_step(const Step& a, const Step& b) {
  if (a.verb != b.verb || a.peer != b.peer) return false;
  for (int which = 0; which < operands; ++which)
    if (uses(a, which) && operand(a, which) != operand(b, which)) return false;
  return true;
}

bool same(const Plan& a, const Plan& b) {
  return a.shape == b.shape && a.scratch_like == b.scratch_like && a.waits_for == b.waits_for &&
         a.successor_begin == b.successor_begin && a.successor == b.successor && a.next_on_lane == b.next_on_lane &&
         std::equal(a.steps.begin(), a.steps.end(), b.steps.begin(), b.steps.end(), same_step);
}

bool same_but_for_names(const Plan& a, const Plan& b, StepId step) {
  if (a.steps.size() != b.steps.size() || a.scratch_like != b.scratch_like) return false;
  const auto renamed = [step](StepId id) { return id == step ? step + 1 : id == step + 1 ? step : id; };
  std::set<std::pair<StepId, StepId>> edges_of_a;
  std::set<std::pair<StepId, StepId>> edges_of_b;
  for (StepId id = 0; id < a.steps.size(); ++id) {
    if (!same_step(a.steps[id], b.steps[renamed(id)])) return false;
    const StepId next = a.next_on_lane[id];
    if ((next == no_step ? no_step : renamed(next)) != b.next_on_lane[renamed(id)]) return false;
    for (const StepId after : a.successors(id)) edges_of_a.emplace(renamed(id), renamed(after));
    for (const StepId after : b.successors(id)) edges_of_b.emplace(id, after);
  }
  return edges_of_a == edges_of_b;
}

bool edge_is_implied(const Mutation& mutation, const Plan& original, const Plan& mutated) {
  if (mutation.kind != Mutation::Kind::unorder) return false;
  const StepId target = original.successors(mutation.step)[static_cast<std::size_t>(mutation.variant)];
  std::vector<StepId> open{mutation.step};
  std::vector<bool> seen(mutated.steps.size(), false);
  while (!open.empty()) {
    const StepId at = open.back();
    open.pop_back();
    if (at == target) return true;
    for (const StepId next : mutated.successors(at))
      if (!seen[next]) {
        seen[next] = true;
        open.push_back(next);
      }
  }
  return false;
}

}  // namespace tutti::algorithms::testing
