// Finds trees in the messages: which rank gets block b from which. It does not depend on how an algorithm builds its
// tree.
//
// A message spreads if it brings a finished block to a rank that needs it. It collects if it brings a block that is
// still to be reduced, or that is on its way to the root. Spreading messages lead from parent to child, collecting ones
// from child to parent. If each rank but one has one parent, and the root reaches all, it is a tree.

#include "cli/plan/trees.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <utility>

#include "lib/base/collective_traits.h"
#include "lib/base/index.h"

namespace tutti::cli {
namespace {

using algorithms::Buffer;
using algorithms::Plan;
using algorithms::Step;
using algorithms::Verb;

using Edges = std::set<std::pair<int, int>>;  // parent and child

struct Flow {
  Edges down;  // spreading messages
  Edges up;    // collecting messages, reversed
};

bool receives(const Step& step) { return step.verb == Verb::recv || step.verb == Verb::recv_reduce; }

bool collects(Collective collective, const Step& step) {
  const detail::CollectiveTraits& traits = detail::traits_of(collective);
  if (traits.output.holders == detail::Holders::root) return true;
  const bool is_barrier = collective == Collective::barrier;
  const bool spreads_sums = traits.fold == detail::Fold::all && traits.output.extent == detail::Extent::whole;
  if (!spreads_sums && !is_barrier) return false;
  return step.verb == Verb::recv_reduce || (!is_barrier && step.dst.buffer == Buffer::scratch);
}

/// Blocks that travel only a part of the way do not show the tree by themselves; nor do the tokens of a barrier, which
/// are not blocks.
bool as_one(Collective collective) {
  const detail::CollectiveTraits& traits = detail::traits_of(collective);
  return (traits.has_parts() && traits.is_rooted()) || collective == Collective::barrier;
}

std::vector<Flow> find_flows(Collective collective, const std::vector<Plan>& plans) {
  const bool one = as_one(collective);
  std::vector<Flow> flows(one ? 1 : plans.size() * at(plans[0].shape.pipeline));
  for (const Plan& plan : plans)
    for (const Step& step : plan.steps) {
      if (!receives(step)) continue;
      const int rank = plan.shape.rank;
      for (int i = 0; i < step.dst.count; ++i) {
        int block = step.dst.first + i;
        if (step.dst.buffer == Buffer::scratch) block = plan.scratch_like[at(block)];
        Flow& flow = flows[one ? 0 : at(block)];
        if (collects(collective, step)) {
          flow.up.emplace(rank, step.peer);
        } else {
          flow.down.emplace(step.peer, rank);
        }
      }
    }
  return flows;
}

/// Fills in root and children; false if the edges are not a tree over all ranks.
bool grow(const Edges& edges, int ranks, Tree& tree) {
  if (edges.size() + 1 != at(ranks)) return false;
  std::vector<bool> has_parent(at(ranks), false);
  tree.children.assign(at(ranks), {});
  for (const auto& [parent, child] : edges) {
    if (has_parent[at(child)]) return false;
    has_parent[at(child)] = true;
    tree.children[at(parent)].push_back(child);
  }
  tree.root = static_cast<int>(std::find(has_parent.begin(), has_parent.end(), false) - has_parent.begin());
  std::vector<int> reached{tree.root};
  for (std::size_t i = 0; i < reached.size(); ++i)
    reached.insert(reached.end(), tree.children[at(reached[i])].begin(), tree.children[at(reached[i])].end());
  return reached.size() == at(ranks);
}

/// The ranks from this one down to a leaf if each has one child, else empty.
std::vector<int> find_chain(const Tree& tree, int rank) {
  std::vector<int> chain{rank};
  while (tree.children[at(chain.back())].size() == 1) chain.push_back(tree.children[at(chain.back())][0]);
  return tree.children[at(chain.back())].empty() ? chain : std::vector<int>{};
}

/// A chain is drawn to the right, since one level per rank would not fit on the page.
void draw_chain(const std::vector<int>& chain, const std::string& margin, std::string& text) {
  constexpr std::size_t width = 80;
  std::string line = margin + std::to_string(chain[0]);  // as wide as the text so far
  text += std::to_string(chain[0]);
  for (std::size_t i = 1; i < chain.size(); ++i) {
    std::string link = " - " + std::to_string(chain[i]);
    if (line.size() + link.size() > width) {
      text += "\n" + margin;
      line = margin;
      link.erase(0, 1);
    }
    text += link;
    line += link;
  }
  text += "\n";
}

void draw_below(const Tree& tree, int rank, const std::string& margin, std::string& text) {
  constexpr std::size_t shortest_chain = 4;
  if (const std::vector<int> chain = find_chain(tree, rank); chain.size() >= shortest_chain)
    return draw_chain(chain, margin, text);
  text += std::to_string(rank) + "\n";
  const std::vector<int>& children = tree.children[at(rank)];
  for (const int child : children) {
    const bool last = child == children.back();
    text += margin + (last ? "`- " : "|- ");
    draw_below(tree, child, margin + (last ? "   " : "|  "), text);
  }
}

}  // namespace

std::vector<Tree> find_trees(Collective collective, const std::vector<Plan>& plans, std::size_t at_most) {
  const int ranks = static_cast<int>(plans.size());
  std::vector<Tree> trees;
  if (ranks < 2) return trees;
  const std::vector<Flow> flows = find_flows(collective, plans);
  for (std::size_t block = 0; block < flows.size(); ++block) {
    const Flow& flow = flows[block];
    Tree tree;
    if (!grow(flow.down.empty() ? flow.up : flow.down, ranks, tree)) return {};
    tree.up_and_down = !flow.down.empty() && flow.up == flow.down;
    if (!flow.down.empty() && !flow.up.empty() && !tree.up_and_down) return {};
    const auto known = std::find_if(trees.begin(), trees.end(), [&](const Tree& other) {
      return other.root == tree.root && other.children == tree.children && other.up_and_down == tree.up_and_down;
    });
    Tree& found = known != trees.end() ? *known : trees.emplace_back(std::move(tree));
    if (trees.size() > at_most) return {};
    if (!as_one(collective)) found.blocks.push_back(static_cast<int>(block));
  }
  return trees;
}

std::string draw(const Tree& tree) {
  std::string text = "  ";
  draw_below(tree, tree.root, "  ", text);
  return text;
}

}  // namespace tutti::cli
