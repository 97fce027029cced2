// All plans of a page as one sequence of numbers. Ranks and blocks are counted from the plan's rank, and steps that one
// waits for from the step. So ranks that do the same have the same text, which compresses well.
//
//   per algorithm and number of ranks:  pipeline, root, trees, plans of all ranks, how many other depths, the depths
//   tree:   parent + 1 of each rank (0: the root), how many blocks, the blocks
//   plan:   how many scratch slots, the block that each is like, how many steps, the steps
//   step:   verb, peer of all but copy and reduce, dst, left, right where the verb has them, how many it waits for,
//   those blocks: buffer, first, count
//   depth:  pipeline, how many paces, the paces of algorithms/replay_paces.h: from, messages, blocks

#include <fmt/core.h>

#include "algorithms/describe.h"
#include "algorithms/replay_paces.h"
#include "cli/base/pack.h"
#include "cli/plan/page/page.h"
#include "cli/plan/trees.h"
#include "lib/base/index.h"
#include "tutti/error.h"

namespace tutti::cli {

using algorithms::Blocks;
using algorithms::Plan;
using algorithms::Step;
using algorithms::StepId;

namespace {

int behind(int value, int from, int modulus) { return ((value - from) % modulus + modulus) % modulus; }

std::vector<int> parents_of(const Tree& tree) {
  std::vector<int> parents(tree.children.size(), -1);
  for (std::size_t rank = 0; rank < tree.children.size(); ++rank)
    for (const int child : tree.children[rank]) parents[at(child)] = static_cast<int>(rank);
  return parents;
}

}  // namespace

void PagePlans::add(Collective collective, const algorithms::Choice& choice, int root, std::size_t bytes) {
  for (int ranks = fewest_ranks_on_page; ranks <= most_ranks_on_page; ++ranks)
    add_one(collective, algorithms::settled(choice, ranks, bytes), ranks, root < ranks ? root : 0);
}

void PagePlans::add_one(Collective collective, const algorithms::Choice& choice, int ranks, int root) {
  const View view = make_view(collective, choice, algorithms::shape_of(choice, 0, ranks, root));
  if (!view.complete() || !view.verdict.ok())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("plan: {} over {} ranks is wrong, or too large to be checked, and is not shown as a page",
                            to_string(choice), ranks));
  put(choice.pipeline);
  put(root);
  add_trees(view);
  for (const Plan& plan : view.plans) add_plan(plan);
  add_depths(view);
}

std::string PagePlans::text() const { return squeezed(letters(numbers_)); }

void PagePlans::add_trees(const View& view) {
  const std::vector<Tree> trees = find_trees(view.collective, view.plans, 2);
  put(static_cast<int>(trees.size()));
  for (const Tree& tree : trees) {
    for (const int parent : parents_of(tree)) put(parent + 1);
    put(static_cast<int>(tree.blocks.size()));
    for (const int block : tree.blocks) put(block);
  }
}

void PagePlans::add_plan(const Plan& plan) {
  const int blocks = plan.shape.ranks * plan.shape.pipeline;
  const int own = plan.shape.rank * plan.shape.pipeline;
  put(static_cast<int>(plan.scratch_like.size()));
  for (const int block : plan.scratch_like) put(behind(block, own, blocks));
  std::vector<std::vector<StepId>> waits(plan.steps.size());
  for (StepId step = 0; step < plan.steps.size(); ++step)
    for (const StepId next : plan.successors(step)) waits[next].push_back(step);
  put(static_cast<int>(plan.steps.size()));
  for (StepId id = 0; id < plan.steps.size(); ++id) {
    const Step& step = plan.steps[id];
    put(static_cast<int>(step.verb));
    if (!algorithms::is_local(step.verb)) put(behind(step.peer, plan.shape.rank, plan.shape.ranks));
    if (algorithms::writes_dst(step.verb)) add_blocks(step.dst, plan);
    if (algorithms::reads_left(step.verb)) add_blocks(step.left, plan);
    if (algorithms::reads_right(step.verb)) add_blocks(step.right, plan);
    put(static_cast<int>(waits[id].size()));
    for (const StepId before : waits[id]) put(static_cast<int>(id - before));
  }
}

/// The times of the same algorithm with other numbers of slices. An algorithm that cuts each rank's part, and not the
/// whole vector, gains nothing here, since adding is free.
void PagePlans::add_depths(const View& view) {
  if (!view.choice.entry->has_slices) return put(0);
  std::vector<int> depths;
  for (int depth = 1; depth <= most_slices_on_page; depth *= 2)
    if (depth != view.shape.pipeline) depths.push_back(depth);
  put(static_cast<int>(depths.size()));
  for (const int depth : depths) {
    std::vector<Plan> plans;
    algorithms::Shape shape = view.shape;
    shape.pipeline = depth;
    for (shape.rank = 0; shape.rank < shape.ranks; ++shape.rank) plans.push_back(view.choice.entry->build(shape));
    const std::vector<algorithms::Pace> paces = algorithms::paces(view.collective, plans, view.claims());
    put(depth);
    put(static_cast<int>(paces.size()));
    for (const algorithms::Pace& pace : paces) {
      put(pace.from + algorithms::most_octaves * algorithms::ratio_steps);
      put(pace.messages);
      put(pace.blocks);
    }
  }
}

void PagePlans::add_blocks(const Blocks& blocks, const Plan& plan) {
  const bool scratch = blocks.buffer == algorithms::Buffer::scratch;
  put(static_cast<int>(blocks.buffer));
  put(scratch ? blocks.first
              : behind(blocks.first, plan.shape.rank * plan.shape.pipeline, plan.shape.ranks * plan.shape.pipeline));
  put(blocks.count);
}

}  // namespace tutti::cli
