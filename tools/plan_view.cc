// Plans as text.

#include "tools/plan_view.h"

#include <fmt/core.h>

#include <algorithm>

#include "algorithms/describe.h"
#include "tools/plan_trees.h"

namespace tutti::tools {
namespace {

using algorithms::Plan;
using algorithms::Shape;
using algorithms::Step;
using algorithms::StepId;

constexpr std::size_t most_blocks = 100'000'000;  // that plans of all ranks may touch together
constexpr int most_ranks_drawn = 128;

std::size_t index(int i) { return static_cast<std::size_t>(i); }

std::string plural(std::size_t count, const std::string& what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

/// Blocks that one rank's plan touches, roughly what it costs to build and check.
std::size_t weight(const Plan& plan) {
  std::size_t blocks = plan.scratch_like.size() + index(plan.shape.ranks * plan.shape.pipeline);
  for (const Step& step : plan.steps) blocks += index(step.dst.count + step.left.count + step.right.count) + 1;
  return blocks;
}

/// Per step, the steps it waits for.
std::vector<std::vector<int>> predecessors(const Plan& plan) {
  std::vector<std::vector<int>> before(plan.steps.size());
  for (StepId step = 0; step < plan.steps.size(); ++step)
    for (const StepId next : plan.successors(step)) before[next].push_back(static_cast<int>(step));
  return before;
}

/// "1.50 S": blocks as a part of the whole vector.
std::string share(std::size_t blocks, const Shape& shape) {
  return fmt::format("{:.2f} S", static_cast<double>(blocks) / (shape.ranks * shape.pipeline));
}

/// "64 KiB"
std::string size_text(double bytes) {
  for (const char* unit : {"B", "KiB", "MiB", "GiB"}) {
    if (bytes < 1024 || std::string{unit} == "GiB") return fmt::format("{:.4g} {}", bytes, unit);
    bytes /= 1024;
  }
  return {};
}

}  // namespace

View make_view(Collective collective, const algorithms::Choice& choice, const Shape& shape) {
  View view{collective, choice, shape, {}, {}, {}};
  Plan first = choice.entry->build(shape);
  if (weight(first) > most_blocks / index(shape.ranks)) {
    view.plans.push_back(std::move(first));
    return view;
  }
  for (int rank = 0; rank < shape.ranks; ++rank) {
    Shape other = shape;
    other.rank = rank;
    view.plans.push_back(choice.entry->build(other));
  }
  view.verdict = check(collective, view.plans, view.claims());
  view.rounds = rounds_of_steps(collective, view.plans, view.claims());
  return view;
}

std::string heading(const View& view) {
  const Shape& shape = view.shape;
  const bool rooted = view.collective == Collective::broadcast || view.collective == Collective::reduce ||
                      view.collective == Collective::scatter || view.collective == Collective::gather;
  std::string text = fmt::format("{} by {} over {}{}: {}\n", name_of(view.collective), to_string(view.choice),
                                 plural(index(shape.ranks), "rank"), rooted ? fmt::format(", root {}", shape.root) : "",
                                 view.choice.entry->idea);
  if (view.collective == Collective::barrier) return text + "Blocks are tokens; all together they are S.\n";
  return text + fmt::format("The vector S is cut into {}, {} per rank.\n",
                            plural(index(shape.ranks * shape.pipeline), "block"), shape.pipeline);
}

std::string trees(const View& view) {
  if (!view.complete() || view.shape.ranks > most_ranks_drawn) return {};
  const std::vector<Tree> found = find_trees(view.collective, view.plans, 2);
  std::string text;
  for (const Tree& tree : found) {
    text += found.size() > 1 ? fmt::format("\nTree {}", &tree - found.data() + 1) : "\nThe tree";
    if (!tree.blocks.empty() && found.size() > 1) text += ", blocks " + compress(tree.blocks);
    text += tree.up_and_down ? "; partial results go up, results come down:\n" : ":\n";
    text += draw(tree);
  }
  return text;
}

std::string steps(const View& view, const Plan& plan, std::size_t at_most) {
  const Shape& shape = plan.shape;
  std::size_t sent = 0;
  std::size_t messages = 0;
  for (const Step& step : plan.steps) {
    if (!algorithms::sends(step.verb)) continue;
    ++messages;
    sent += index(step.left.count);
  }
  std::string text = fmt::format("\nRank {} of {}: {}, sends {} in {}, {}\n", shape.rank, shape.ranks,
                                 plural(plan.steps.size(), "step"), share(sent, shape), plural(messages, "message"),
                                 plural(plan.scratch_like.size(), "scratch block"));
  const std::vector<std::vector<int>> before = predecessors(plan);
  const std::vector<int>* rounds =
      view.rounds.empty() ? nullptr : &view.rounds[view.complete() ? index(shape.rank) : 0];
  std::size_t widest = 4;
  const std::size_t shown = std::min(at_most, plan.steps.size());
  for (std::size_t i = 0; i < shown; ++i) widest = std::max(widest, describe(plan.steps[i]).size());
  if (shown > 0)
    text += fmt::format("  {:>5} {:>5}  {:{}}  after step\n", rounds ? "round" : "", "step", "what", widest);
  for (std::size_t i = 0; i < shown; ++i) {
    const Step& step = plan.steps[i];
    std::string round;
    if (rounds) round = std::to_string((*rounds)[i] + (algorithms::sends(step.verb) ? 1 : 0));
    text += fmt::format("  {:>5} {:>5}  {:{}}  {}\n", round, i, describe(step), widest,
                        before[i].empty() ? "-" : compress(before[i]));
  }
  if (shown < plan.steps.size())
    text += fmt::format("  ... {} more (all of them with --rank {})\n", plan.steps.size() - shown, shape.rank);
  return text;
}

std::string figures(const View& view) {
  const algorithms::Verdict& verdict = view.verdict;
  return fmt::format("{}, {}, the busiest rank sends {}, at most {} of scratch\n", plural(verdict.messages, "message"),
                     plural(index(verdict.rounds), "round"), share(verdict.busiest_blocks, view.shape),
                     plural(verdict.scratch_blocks, "block"));
}

std::string verdict(const View& view) {
  const algorithms::Verdict& verdict = view.verdict;
  std::string text;
  if (verdict.ok()) {
    text = fmt::format(
        "\nProved for all {}: sends match receives, every contribution arrives exactly once,\n"
        "no two steps race{}, no deadlock with {} per link under way.\n",
        plural(index(view.shape.ranks), "rank"),
        view.collective == Collective::all_to_all ? "" : " (in place and out of place)",
        plural(index(verdict.slots), "message"));
    return text + figures(view);
  }
  text = "\nWRONG:\n";
  for (const std::string& problem : verdict.problems) text += "  " + problem + "\n";
  return text;
}

std::string comparison(const View& view, std::size_t bytes) {
  std::string text =
      fmt::format("\n  {:28} {:>6} {:>9} {:>22} {:>8}\n", "", "rounds", "messages", "busiest rank sends", "scratch");
  for (const algorithms::Entry& entry : algorithms::catalogue(view.collective)) {
    algorithms::Choice choice{&entry};
    const bool chosen = &entry == view.choice.entry;
    if (chosen) choice = view.choice;
    Shape shape = view.shape;
    shape.radix = choice.radix;
    shape.pipeline = choice.pipeline;
    const View other = chosen ? view : make_view(view.collective, choice, shape);
    const std::string name = fmt::format("{} {}", chosen ? "*" : " ", to_string(choice));
    if (!other.complete()) {
      text += fmt::format("  {:28} too large to count\n", name);
      continue;
    }
    const double part = static_cast<double>(bytes) / (shape.ranks * shape.pipeline);
    text += fmt::format("  {:28} {:>6} {:>9} {:>22} {:>8}\n", name, other.verdict.rounds, other.verdict.messages,
                        fmt::format("{} = {}", share(other.verdict.busiest_blocks, shape),
                                    size_text(part * static_cast<double>(other.verdict.busiest_blocks))),
                        share(other.verdict.scratch_blocks, shape));
  }
  return text;
}

std::string list(const std::vector<Collective>& collectives) {
  std::string text;
  for (const Collective collective : collectives) {
    text += fmt::format("{}{}\n", text.empty() ? "" : "\n", name_of(collective));
    for (const algorithms::Entry& entry : algorithms::catalogue(collective)) {
      const std::string name =
          std::string{entry.name} + (entry.has_radix ? ":K" : "") + (entry.has_pipeline ? "*P" : "");
      std::string idea{entry.idea};
      if (entry.equal_parts) idea += "; equal parts only";
      if (entry.rank_order) idea += "; folds in rank order";
      text += fmt::format("  {:24} {}\n", name, idea);
    }
  }
  return text + "\n:K chooses the radix and *P the pipeline, for example tree:4 or chain*8.\n";
}

}  // namespace tutti::tools
