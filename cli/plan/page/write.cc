// `tutti plan --html`: evaluates the options of the page.

#include <fmt/core.h>

#include <algorithm>

#include "cli/base/output.h"
#include "cli/base/text.h"
#include "cli/base/usage_error.h"
#include "cli/plan/page/page.h"
#include "cli/plan/view.h"
#include "tutti/error.h"

namespace tutti::cli {
namespace {

using algorithms::Choice;

std::vector<Choice> named(Collective collective, const std::string& names) {
  std::vector<Choice> choices;
  for (std::size_t at = 0; at < names.size();) {
    const std::size_t comma = std::min(names.find(',', at), names.size());
    choices.push_back(algorithms::find(collective, names.substr(at, comma - at)));
    at = comma + 1;
  }
  return choices;
}

std::vector<Choice> unasked(Collective collective) {
  if (collective == Collective::all_reduce) return named(collective, "ring,double_binary_tree");
  std::vector<Choice> choices;
  for (const algorithms::Entry& entry : algorithms::catalogue(collective).first(2)) choices.push_back({&entry});
  return choices;
}

/// Compares with the steps of the longer algorithm, if the clock counts steps.
void check_step(const PageStart& start) {
  std::size_t most = 0;
  for (const Choice& choice : start.choices) {
    const Choice fits = settled(choice, start.ranks, start.model.bytes);
    const View view = make_view(start.collective, fits, algorithms::shape_of(fits, 0, start.ranks, start.root));
    most = std::max(most, make_replays(view, start.model).frames.size());
  }
  if (most > 0 && static_cast<std::size_t>(start.step) >= most)
    wrong("plan", fmt::format("--step takes 0 to {} here, not {}", most - 1, start.step));
}

/// A page of plans only.
PageStart plans_wished(const PageOptions& options, const PageWish& wish) {
  PageStart start;
  start.collective = wish.collective.value_or(Collective::all_reduce);
  start.ranks = wish.ranks.value_or(default_ranks_on_page);
  start.root = wish.root.value_or(0);
  start.step = wish.step.value_or(0);
  start.model = wish.model;
  if (start.ranks < fewest_ranks_on_page || start.ranks > most_ranks_on_page)
    wrong("plan",
          fmt::format("--html takes -n {} to {}, not {}", fewest_ranks_on_page, most_ranks_on_page, start.ranks));
  if (!options.compare.empty() && !wish.algorithm.empty()) wrong("plan", "--compare names the algorithms; omit --algo");
  start.choices = named(start.collective, options.compare.empty() ? wish.algorithm : options.compare);
  if (start.choices.size() > 2)
    wrong("plan", fmt::format("--compare takes two algorithms, not {}", start.choices.size()));
  if (start.choices.empty()) start.choices = unasked(start.collective);
  if (wish.step) check_step(start);
  return start;
}

/// A page of a run and its plan.
PageStart run_wished(const PageOptions& options, const PageWish& wish) {
  if (!options.compare.empty()) wrong("plan", "--trace shows the algorithm that ran; leave --compare away");
  if (wish.step) wrong("plan", "--step counts steps of plans, and a run has a clock; omit --step or --trace");
  if (wish.bytes) wrong("plan", "--bytes is for plans, and a run has its own size; omit --bytes or --trace");
  PageStart start;
  start.run = find_run({.file = options.trace,
                        .collective = wish.collective,
                        .algorithm = wish.algorithm,
                        .ranks = wish.ranks,
                        .root = wish.root,
                        .operation = options.call},
                       most_ranks_on_page);
  const simulate::SimulatedCall& simulated = start.run->simulated;
  start.collective = simulated.collective;
  start.choices = {Choice{simulated.choice.entry}};
  start.ranks = simulated.ranks;
  start.root = simulated.root;
  start.model = wish.model;
  start.model.bytes = std::max<std::size_t>(simulated.bytes, 1);
  return start;
}

void say_what_runs(const Run& run) {
  const ReplayedCall& call = run.calls[run.first];
  fmt::print("It replays {} by {} over {}: {}{}{}\n", call.name, to_string(run.simulated.choice),
             plural(call.members.size(), "rank"), duration_text(call.end),
             call.predicted > 0 ? ", predicted " + duration_text(call.predicted) : "",
             run.found == 1
                 ? ""
                 : fmt::format("; {} of {} such calls of {} are on it", run.calls.size(), run.found, run.file));
  if (!run.left_out.empty()) fmt::print("A page has no room for the messages of {}\n", run.left_out);
  for (const Conclusion& conclusion : call.verdict) fmt::print("{}\n", conclusion.text);
}

}  // namespace

void write_page(const PageOptions& options, const PageWish& wish) {
  if (options.call && options.trace.empty()) wrong("plan", "--call names a call of --trace FILE");
  PageStart start = options.trace.empty() ? plans_wished(options, wish) : run_wished(options, wish);
  if (!options.points.empty()) start.points = read_points(options.points);
  const std::string page = to_html(start);
  write_file("plan", options.html, page);
  fmt::print("Written: {}, {} kB; open it in a browser\n", options.html, (page.size() + 999) / 1000);
  if (start.run) say_what_runs(*start.run);
}

}  // namespace tutti::cli
