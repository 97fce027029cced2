// `tutti plan`: what is shown, and in what order. view.cc makes the text.

#include "cli/plan/plan.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "cli/base/command_line.h"
#include "cli/base/exit_codes.h"
#include "cli/base/output.h"
#include "cli/base/text.h"
#include "cli/base/usage_error.h"
#include "cli/measure/call.h"
#include "cli/plan/choice.h"
#include "cli/plan/frames.h"
#include "cli/plan/interchange/import.h"
#include "cli/plan/options.h"
#include "cli/plan/page/page.h"
#include "cli/plan/replay.h"
#include "cli/plan/streams.h"
#include "cli/plan/svg/svg.h"
#include "cli/plan/view.h"
#include "lib/base/collective_traits.h"
#include "tutti/error.h"

namespace tutti::cli {
namespace {

using algorithms::Choice;

constexpr std::size_t everything = std::numeric_limits<std::size_t>::max();
constexpr std::size_t most_steps_unasked = 40;            // of rank 0, if no rank was requested
constexpr std::size_t most_frames_unasked = 40;           // if no step was requested
constexpr int most_ranks_in_text = 36;                    // one digit or letter each
constexpr std::size_t most_steps = std::size_t{4} << 20;  // of one rank

/// Also accepts the names that `tutti bench` accepts: allreduce, bcast, alltoall.
Collective find_collective(const std::string& name) {
  const std::optional<measure::MeasuredCall> call = measure::find_call(name);
  if (call && (call->form == measure::MeasuredCall::Form::usual || call == measure::all_to_all_v))
    return call->collective;
  return algorithms::find_collective(name);
}

/// A barrier has none: its tokens are empty.
std::size_t bytes_of(const plan::Options& options, Collective collective) {
  return collective == Collective::barrier ? 0 : plan::size_of_text(options.bytes);
}

Choice choose(const plan::Options& options, Collective collective, std::string& why) {
  const std::size_t bytes = bytes_of(options, collective);
  Choice chosen;
  std::vector<int> domains;
  if (!options.topology.empty()) domains = read_domains(options.topology, options.ranks);
  const int hosts = options.hosts.value_or(1);
  const int on_each = hosts > 1 ? options.ranks / hosts : 0;
  if (options.algorithm.empty())
    chosen = ask_table({.collective = collective,
                        .ranks = options.ranks,
                        .bytes = bytes,
                        .transport = on_each > 1 ? "hosts" : options.transport,
                        .oversubscribed = options.oversubscribed,
                        .ranks_on_each_host = on_each,
                        .domains = domains},
                       why);
  else
    chosen = algorithms::find(collective, options.algorithm);
  const bool radix_given = options.radix != 0 || options.algorithm.find(':') != std::string::npos;
  if (chosen.entry->has_domains && !radix_given && !options.algorithm.empty()) chosen.domains = domains;
  if (options.radix == 0 && options.pipeline == 0) return chosen;
  if (options.pipeline == 0) chosen = settled(chosen, options.ranks, bytes);
  return with_parameters(chosen, options.radix, options.pipeline);
}

void check_step(const plan::Options& options, const Replays& replays) {
  if (replays.empty()) wrong("plan", "these plans are not run step by step: too large, or with --explain");
  if (static_cast<std::size_t>(*options.step) >= replays.frames.size())
    wrong("plan", fmt::format("--step takes 0 to {} here, not {}", replays.frames.size() - 1, *options.step));
  if (options.svg.empty() && !options.json && options.ranks > most_ranks_in_text)
    wrong("plan", fmt::format("text has room for {} ranks; take fewer, or --json", most_ranks_in_text));
}

void print_steps(const plan::Options& options, const View& view, const Replays& replays) {
  const std::vector<int> ranks = plan::ranks_to_show(options);
  const std::size_t at_most = options.rank.empty() ? most_steps_unasked : everything;
  for (const algorithms::Plan& plan : view.plans)
    if (std::find(ranks.begin(), ranks.end(), plan.shape.rank) != ranks.end())
      print_text(steps(plan, replays, at_most));
  if (replays.empty()) return;
  fmt::print(
      "\n# counts the steps of this rank's plan; \"step\" is that of all in which it ends.\n"
      "It waits for others of its rank, for a message, or to leave behind another.\n");
  if (options.rank.empty() && view.shape.ranks > 1) fmt::print("The other ranks: --rank R, or --rank all.\n");
}

void print_frames(const plan::Options& options, const View& view, const Replays& replays) {
  print_text(frames_legend(view, replays));
  const std::size_t frames = replays.frames.size();
  if (options.step) return print_text(frame(view, replays, static_cast<std::size_t>(*options.step)));
  for (std::size_t step = 0; step < std::min(frames, most_frames_unasked); ++step)
    print_text(frame(view, replays, step));
  if (frames > most_frames_unasked)
    fmt::print("\n... {} more steps: --step {} and so on\n", frames - most_frames_unasked, most_frames_unasked);
}

void print_plan(const plan::Options& options, const View& view, const Replays& replays, const std::string& why) {
  print_text(heading(view));
  if (!why.empty()) print_text(wrapped(fmt::format("Chosen for {}\n", why), 2));
  if (options.explain) {
    if (why.empty()) fmt::print("Chosen by --algo; without it the tuning table is asked.\n");
    print_text(comparison(view, bytes_of(options, view.collective)));
    if (options.check) print_text(verdict(view));
    return;
  }
  if (!view.complete()) fmt::print("The plans of all ranks would be too large to look at together.\n");
  print_text(trees(view));
  const bool small = !replays.empty() && options.ranks <= plan::most_ranks_in_frames;
  if (options.rank.empty() && (small || options.step))
    print_frames(options, view, replays);
  else
    print_steps(options, view, replays);
  if (!replays.empty()) print_text(footer(view, replays));
  if (options.check || (view.complete() && !view.verdict.ok())) print_text(verdict(view));
}

void write_picture(const plan::Options& options, const View& view, const Replays& replays) {
  const std::string why_not = too_large_to_draw(replays);
  if (!why_not.empty()) wrong("plan", why_not + "; take fewer ranks or a smaller pipeline");
  std::optional<std::size_t> step;
  if (options.step) step = static_cast<std::size_t>(*options.step);
  write_file("plan", options.svg, to_svg(view, replays, step));
  fmt::print("Drawn into {}: {}, {}\n", options.svg, plural(replays.frames.size() - 1, "step"),
             plural(replays.steps.messages.size(), "message"));
}

/// Before one rank's plan takes gigabytes. The root has the longest, or all have equally long ones.
void refuse_too_large(const Choice& choice, int ranks, int root) {
  const std::size_t steps = count_steps(*choice.entry, algorithms::shape_of(choice, root, ranks, root));
  if (steps > most_steps)
    wrong("plan", fmt::format("the plan {} of a rank among {} would be too large to look at, with {} steps; take fewer "
                              "ranks or a shorter pipeline",
                              to_string(choice), ranks, steps));
}

/// A plan from a file, which has its own number of ranks.
View view_of_import(plan::Options& options, interchange::Foreign& foreign) {
  interchange::load_foreign("plan", options.import, foreign);
  if (!options.json) interchange::require_right("plan", options.import, foreign.view.verdict);
  if (!options.collective.empty() && find_collective(options.collective) != foreign.view.collective)
    wrong("plan",
          fmt::format("{} is for {}, not {}", options.import, name_of(foreign.view.collective), options.collective));
  options.ranks = foreign.view.shape.ranks;
  options.root = foreign.view.shape.root;
  plan::check_options(options);
  plan::check_root(options);
  foreign.view.shape.rank = plan::rank_in_front(options);
  return foreign.view;
}

View view_of_choice(const plan::Options& options, std::string& why) {
  const Collective collective = find_collective(options.collective);
  plan::check_options(options);
  plan::check_root(options);
  const Choice choice =
      algorithms::settled(choose(options, collective, why), options.ranks, bytes_of(options, collective));
  refuse_too_large(choice, options.ranks, options.root);
  return make_view(collective, choice,
                   algorithms::shape_of(choice, plan::rank_in_front(options), options.ranks, options.root));
}

int show_page(const plan::Options& options, const CLI::App& app) {
  plan::check_options(options);
  const bool any_ranks = !options.page.trace.empty() && app.count("--ranks") == 0;  // take it from the trace
  if (!any_ranks) plan::check_root(options);
  PageWish wish;
  if (!options.collective.empty()) wish.collective = find_collective(options.collective);
  wish.algorithm = options.algorithm;
  if (app.count("--ranks") > 0) wish.ranks = options.ranks;
  if (app.count("--root") > 0) wish.root = options.root;
  wish.step = options.step;
  if (app.count("--bytes") > 0) wish.bytes = plan::size_of_text(options.bytes);
  wish.model = {plan::size_of_text(options.bytes), options.latency, options.bandwidth};
  write_page(options.page, wish);
  return exit_success;
}

int show_streams(const plan::Options& options, const View& view, std::size_t bytes) {
  const GpuStreams streams = make_streams(view, {bytes, plan::size_of_text(options.slot, "--slot"), options.slots,
                                                 plan::ranks_to_show(options), options.gpus.value_or(0)});
  if (options.json) {
    print_text(streams_as_json(view, streams));
  } else {
    print_text(heading(view));
    print_text(streams_as_text(view, streams, options.rank.empty() ? most_steps_unasked : everything));
    if (options.check) print_text(verdict(view));
  }
  return exit_success;
}

int show(plan::Options options) {
  std::string why;
  const std::size_t bytes = plan::size_of_text(options.bytes);
  interchange::Foreign foreign;
  const View view = options.import.empty() ? view_of_choice(options, why) : view_of_import(options, foreign);
  if (!view.complete() && (options.check || options.rank == "all" || !options.on.empty()))
    wrong("plan",
          fmt::format("the plans of {} ranks would be too large to look at together; take fewer ranks, or --rank R",
                      options.ranks));
  if (!options.on.empty()) return show_streams(options, view, bytes);
  Replays replays;
  if (!options.explain) replays = make_replays(view, {bytes, options.latency, options.bandwidth});
  if (options.step) check_step(options, replays);
  interchange::write_files(options.outputs, view, bytes);
  if (!options.svg.empty()) write_picture(options, view, replays);
  const bool has_files = !options.svg.empty() || options.outputs.any();
  if (has_files && options.check) {
    if (options.outputs.on_standard_output())
      say_error(verdict(view));
    else
      print_text(verdict(view));
  }
  if (has_files) return exit_success;  // for plans that are right alone
  if (options.json)
    print_text(to_json(view, replays, plan::ranks_to_show(options), why));
  else
    print_plan(options, view, replays, why);
  if (!view.complete() || view.verdict.ok()) return exit_success;
  return options.import.empty() ? exit_internal : exit_usage;
}

void refuse_root_without_effect(const plan::Options& options, const CLI::App& app) {
  if (app.count("--root") == 0 || options.collective.empty()) return;
  const Collective collective = find_collective(options.collective);
  if (!detail::is_rooted(collective))
    wrong("plan", fmt::format("--root has no effect: {} has no root", name_of(collective)));
}

int show_list(const plan::Options& options) {
  std::vector<Collective> collectives;
  if (!options.collective.empty()) {
    collectives.push_back(find_collective(options.collective));
  } else {
    for (int i = 0; i < collective_count; ++i) collectives.push_back(static_cast<Collective>(i));
  }
  print_text(options.json ? list_as_json(collectives) : list(collectives));
  return exit_success;
}

}  // namespace

int plan_main(int argc, char** argv) {
  plan::Options options;
  CLI::App app{"Shows, proves and explains what each rank does.", "tutti plan"};
  plan::declare(app, options);
  if (!parse_command_line(app, argc, argv, "plan")) return exit_success;
  refuse_root_without_effect(options, app);
  if (options.list) return show_list(options);
  if (!options.page.html.empty()) return show_page(options, app);
  if (options.page.any()) wrong("plan", "--compare, --points, --trace and --call belong to --html FILE");
  if (options.collective.empty() && options.import.empty())
    wrong("plan", "which collective? For example: tutti plan all_reduce --algo ring");
  return show(options);
}

}  // namespace tutti::cli
