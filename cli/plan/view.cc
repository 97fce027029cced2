// Plans as text.

#include "cli/plan/view.h"

#include <fmt/core.h>

#include <algorithm>

#include "algorithms/describe.h"
#include "algorithms/proofs.h"
#include "cli/base/text.h"
#include "cli/plan/replay.h"
#include "cli/plan/trees.h"
#include "lib/base/index.h"
#include "lib/collective/call.h"

namespace tutti::cli {
namespace {

using algorithms::Plan;
using algorithms::Shape;
using algorithms::Step;
using algorithms::StepId;

constexpr int most_ranks_drawn = 128;
constexpr std::size_t widest_description = 46;
constexpr const char* parameters_of_names =
    ":K chooses the radix and *P the pipeline, for example tree:4 or chain*8. In place of *P, /SIZE gives the size of "
    "the largest message, chain/64K. Domains are sizes of neighbours, hierarchical:3+1, or lists of ranks, "
    "hierarchical:0.2+1.3.\n";

/// Per step: the steps of its own rank that must be complete, the one that must have been issued before it on its link,
/// and the step of another rank that sends what it receives.
std::vector<std::string> waits_of(const Plan& plan, const Replays& replays) {
  std::vector<std::vector<int>> before(plan.steps.size());
  std::vector<StepId> ahead(plan.steps.size(), algorithms::no_step);
  for (StepId step = 0; step < plan.steps.size(); ++step) {
    for (const StepId next : plan.successors(step)) before[next].push_back(static_cast<int>(step));
    if (plan.next_on_lane[step] != algorithms::no_step) ahead[plan.next_on_lane[step]] = step;
  }
  std::vector<std::string> waits(plan.steps.size());
  const auto add = [&](std::size_t step, const std::string& what) {
    waits[step] += (waits[step].empty() ? "" : "; ") + what;
  };
  for (std::size_t step = 0; step < plan.steps.size(); ++step) {
    if (!before[step].empty()) add(step, "#" + compress(before[step]));
    const int turn = static_cast<int>(ahead[step]);
    if (algorithms::sends(plan.steps[step].verb) && ahead[step] != algorithms::no_step &&
        std::find(before[step].begin(), before[step].end(), turn) == before[step].end())
      add(step, fmt::format("behind #{}", turn));
  }
  for (const algorithms::ReplayMessage& message : replays.steps.messages)
    if (message.to == plan.shape.rank) add(message.recv, fmt::format("rank {}'s #{}", message.from, message.send));
  for (std::string& wait : waits)
    if (wait.empty()) wait = "-";
  return waits;
}

/// Whether the plans can run on streams of GPUs, one for each rank.
std::string in_order(const algorithms::Verdict& verdict) {
  constexpr const char* how = "If each rank runs its steps one after the other, as on one stream of a GPU, ";
  if (!verdict.in_order) return fmt::format("{}they deadlock.", how);
  return fmt::format("{}{} per link suffice{}.", how, plural(at(*verdict.in_order), "slot"),
                     *verdict.in_order == 1 ? "s" : "");
}

/// "1.50 S": blocks as a fraction of the whole vector.
std::string share(std::size_t blocks, const Shape& shape) {
  return fmt::format("{:.2f} S", static_cast<double>(blocks) / (shape.ranks * shape.pipeline));
}

}  // namespace

View make_view(Collective collective, const algorithms::Choice& choice, const Shape& shape) {
  View view{collective, choice, shape, {}, {}};
  Plan first = choice.entry->build(shape);
  if (algorithms::weight(first) > algorithms::most_blocks_to_prove / at(shape.ranks)) {
    view.plans.push_back(std::move(first));
    return view;
  }
  for (int rank = 0; rank < shape.ranks; ++rank) {
    Shape other = shape;
    other.rank = rank;
    view.plans.push_back(choice.entry->build(other));
  }
  view.verdict = check(collective, view.plans, view.claims());
  return view;
}

std::string heading(const View& view) {
  const Shape& shape = view.shape;
  const bool rooted = detail::is_rooted(view.collective);
  std::string text = fmt::format("{} by {} over {}{}: {}\n", name_of(view.collective), to_string(view.choice),
                                 plural(at(shape.ranks), "rank"), rooted ? fmt::format(", root {}", shape.root) : "",
                                 view.choice.entry->idea);
  if (view.collective == Collective::barrier) return wrapped(text + "Blocks are tokens; all together they are S.\n", 0);
  return wrapped(text, 0) + fmt::format("The vector S is cut into {}, {} per rank.\n",
                                        plural(at(shape.ranks * shape.pipeline), "block"), shape.pipeline);
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

std::string steps(const Plan& plan, const Replays& replays, std::size_t at_most) {
  const Shape& shape = plan.shape;
  std::size_t sent = 0;
  std::size_t messages = 0;
  for (const Step& step : plan.steps) {
    if (!algorithms::sends(step.verb)) continue;
    ++messages;
    sent += at(step.left.count);
  }
  std::string text =
      wrapped(fmt::format("\nRank {} of {}: {}, sends {} in {}, {}\n", shape.rank, shape.ranks,
                          plural(plan.steps.size(), "plan step"), share(sent, shape), plural(messages, "message"),
                          plural(plan.scratch_like.size(), "scratch block")),
              2);
  const std::vector<std::string> waits = waits_of(plan, replays);
  std::size_t widest = 4;
  const std::size_t shown = std::min(at_most, plan.steps.size());
  for (std::size_t i = 0; i < shown; ++i) widest = std::max(widest, describe(plan.steps[i]).size());
  widest = std::min(widest, widest_description);
  if (shown > 0)
    text += fmt::format("{:>6} {:>6}  {:{}}  waits for\n", replays.empty() ? "" : "step", "#", "what", widest);
  for (std::size_t i = 0; i < shown; ++i) {
    const std::string when = replays.empty() ? "" : std::to_string(replays.steps.steps[at(shape.rank)][i].end);
    text += wrapped(fmt::format("{:>6} {:>6}  {:{}}  {}\n", when, i, describe(plan.steps[i]), widest, waits[i]),
                    widest + 17);
  }
  if (shown < plan.steps.size())
    text += fmt::format("  ... {} more (all of them with --rank {})\n", plan.steps.size() - shown, shape.rank);
  return text;
}

std::string verdict(const View& view) {
  const algorithms::Verdict& verdict = view.verdict;
  if (!verdict.ok()) {
    std::string text = "\nWRONG:\n";
    for (const std::string& problem : verdict.problems) text += wrapped("  " + problem + "\n", 4);
    return text;
  }
  return wrapped(
      fmt::format("\nProved for all {}: sends match receives, every contribution arrives exactly once, no two steps "
                  "race{}, no deadlock with {} per link under way.\n{}\n{}, at most {} one after the other, the "
                  "busiest rank sends {}, {} of scratch\n",
                  plural(at(view.shape.ranks), "rank"),
                  view.collective == Collective::all_to_all ? "" : " (in place and out of place)",
                  plural(at(verdict.slots), "message"), in_order(verdict), plural(verdict.messages, "message"),
                  verdict.rounds, share(verdict.busiest_blocks, view.shape), plural(verdict.scratch_blocks, "block")),
      0);
}

std::string comparison(const View& view, std::size_t bytes) {
  std::string text =
      fmt::format("\n  {:26} {:>8} {:>9} {:>22} {:>8}\n", "", "in a row", "messages", "busiest rank sends", "scratch");
  for (const algorithms::Entry& entry : algorithms::catalogue(view.collective)) {
    algorithms::Choice choice{&entry};
    const bool chosen = &entry == view.choice.entry;
    if (chosen) choice = view.choice;
    Shape shape = view.shape;
    shape.radix = choice.radix;
    shape.domains = choice.domains;
    shape.pipeline = choice.pipeline;
    const View other = chosen ? view : make_view(view.collective, choice, shape);
    const std::string name = fmt::format("{} {}", chosen ? "*" : " ", to_string(choice));
    if (!other.complete()) {
      text += fmt::format("  {:26} too large to count\n", name);
      continue;
    }
    const double part = static_cast<double>(bytes) / (shape.ranks * shape.pipeline);
    std::string sends = share(other.verdict.busiest_blocks, shape);
    if (bytes > 0) sends += " = " + size_text(part * static_cast<double>(other.verdict.busiest_blocks));
    text += fmt::format("  {:26} {:>8} {:>9} {:>22} {:>8}\n", name, other.verdict.rounds, other.verdict.messages, sends,
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
      if (entry.has_domains) idea += "; K may be domains";
      text += wrapped(fmt::format("  {:24} {}\n", name, idea), 27);
    }
  }
  return text + "\n" + wrapped(parameters_of_names, 0);
}

}  // namespace tutti::cli
