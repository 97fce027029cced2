// `tutti plan`: the command line. What is shown is made in plan_view.cc.

#include "tools/plan.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/environment.h"
#include "lib/base/nearest.h"
#include "tools/bench_names.h"
#include "tools/exchange/options.h"
#include "tools/exit_codes.h"
#include "tools/plan_frames.h"
#include "tools/plan_page.h"
#include "tools/plan_replay.h"
#include "tools/plan_svg.h"
#include "tools/plan_text.h"
#include "tools/plan_view.h"
#include "tools/sizes.h"
#include "tutti/error.h"

namespace tutti::tools {
namespace {

using algorithms::Choice;

constexpr std::size_t everything = std::numeric_limits<std::size_t>::max();
constexpr std::size_t most_steps_unasked = 40;   // of rank 0, when nobody asked for a rank
constexpr std::size_t most_frames_unasked = 40;  // when nobody asked for a step
constexpr int most_ranks = 4096;                 // the largest plans grow with their square
constexpr int most_ranks_in_frames = 16;         // unasked
constexpr int most_ranks_in_text = 36;           // a digit or letter each

constexpr const char* examples = R"(Examples:
  tutti plan all_reduce --algo ring -n 4                          what each rank has after each step
  tutti plan all_reduce --algo ring -n 4 --rank 1                 what rank 1 does, and what it waits for
  tutti plan all_reduce --algo double_binary_tree -n 24 --check   the trees, and the proof
  tutti plan broadcast --algo tree:4*8 --root 2 -n 9 --rank 2     radix 4, pipeline 8, one rank
  tutti plan all_reduce -n 8 --bytes 64K --transport shm --explain
  tutti plan all_reduce --algo ring -n 4 --svg ring.svg           ... as a picture
  tutti plan all_reduce --html all.html --compare ring,double_binary_tree -n 8
  tutti plan --html run.html --trace t.json                       ... and a run of it, from tutti run --trace t.json
  tutti plan all_reduce --algo ring -n 8 --msccl ring.xml         ... as a program of MSCCL
  tutti plan --import grid.xml --svg grid.svg                     somebody else's, proved and drawn
  tutti plan --list)";

struct Options {
  std::string collective;
  std::string algorithm;
  std::string rank;
  std::string bytes = "1M";
  std::string transport = "tcp";
  std::string svg;
  std::string import;
  exchange::Outputs outputs;
  PageOptions page;
  double latency = 10;      // us, of one message
  double bandwidth = 1.25;  // GB/s: 10 Gb/s
  int ranks = 4;
  std::optional<int> step;
  int root = 0;
  int pipeline = 0;  // 0: not given
  int radix = 0;
  bool check = false;
  bool explain = false;
  bool list = false;
  bool json = false;
};

[[noreturn]] void wrong(const std::string& message) {
  throw Error(ErrorCode::invalid_argument, "plan: " + message + " (tutti plan --help)");
}

void declare(CLI::App& app, Options& options) {
  app.set_help_flag("-h,--help", "Show this help");
  app.add_option("COLLECTIVE", options.collective, "all_reduce, broadcast, ... (tutti plan --list)");
  app.add_option("--algo,--algorithm", options.algorithm,
                 "Name, name:RADIX, name*PIPELINE; without it the tuning table chooses");
  app.add_option("-n,--ranks", options.ranks, "Number of ranks")->capture_default_str();
  app.add_option("--root", options.root, "Rank that has the input or gets the result")->capture_default_str();
  app.add_option("--pipeline", options.pipeline, "Blocks per part: how finely steps may overlap");
  app.add_option("--radix", options.radix, "Fan-out of trees, size of groups");
  app.add_option("--rank", options.rank, "What this rank does, or all, and what each step waits for");
  app.add_option("--step", options.step, "Show what all have after this step alone; 0 is the start");
  app.add_option("--bytes,--size", options.bytes, "Size of the vector, for times and the tuning table, e.g. 64K")
      ->capture_default_str();
  app.add_option("--latency", options.latency, "Microseconds that a message takes besides those of its bytes")
      ->capture_default_str();
  app.add_option("--bandwidth", options.bandwidth, "GB/s of a rank's way out, and of its way in")
      ->capture_default_str();
  app.add_option("--transport", options.transport, "Transport that the tuning table is asked for: shm, tcp or inproc")
      ->capture_default_str();
  app.add_flag("--check", options.check, "Prove the plans of all ranks; exit code 1 if they are wrong");
  app.add_flag("--explain", options.explain, "Why this algorithm, and what the others would cost");
  app.add_flag("--list", options.list, "All algorithms, or those of COLLECTIVE");
  app.add_option("--svg", options.svg, "Draw it into this file: one step (--step), times, what all have when");
  app.add_option("--import", options.import, "Take the plan from this program of MSCCL (XML), proved first")
      ->excludes("--algo", "--ranks", "--root", "--pipeline", "--radix", "--explain", "--list");
  app.add_option("--msccl", options.outputs.msccl, "Write it as a program of MSCCL (XML)");
  app.add_option("--goal", options.outputs.goal, "Write it as a GOAL schedule for LogGOPSim");
  app.add_option("--goal-calc", options.outputs.calc_per_byte, "... where a byte that is reduced takes so many ns")
      ->capture_default_str();
  app.add_option("--save", options.outputs.save, "Write it so that programs can run it: TUTTI_PLAN_FILE");
  app.add_option("--html", options.page.html, "Write a page that plays it, and all other plans of 2 to 16 ranks")
      ->excludes("--import");
  app.add_option("--compare", options.page.compare, "For --html: two algorithms beside each other, e.g. ring,tree");
  app.add_option("--points", options.page.points, "For --html: measured times, from tutti bench -J FILE");
  app.add_option("--trace", options.page.trace,
                 "For --html: replay a call of this run, from tutti run --trace FILE, beside what its plan predicts");
  app.add_option("--call", options.page.call, "For --trace: this call of the plan, by its number; else the longest");
  app.add_flag("--json", options.json, "For programs");
  app.footer(examples);
  app.allow_extras();
}

/// What CLI11 did not know: an option with a typing error, or a word too many.
void refuse_extras(const CLI::App& app) {
  const std::vector<std::string> extras = app.remaining();
  if (extras.empty()) return;
  const std::string word = extras[0].substr(0, extras[0].find('='));
  if (!word.starts_with("-")) wrong(fmt::format("\"{}\" is one word too many", word));
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  const std::vector<std::string_view> views{names.begin(), names.end()};
  wrong(fmt::format("no option \"{}\".{}", word, did_you_mean(word, views)));
}

std::size_t size_of_text(const std::string& text) {
  const std::optional<std::size_t> bytes = parse_bytes(text);
  if (!bytes) wrong(fmt::format("--bytes takes a size such as 8, 64K, 1M or 2G, not \"{}\"", text));
  return *bytes;
}

/// Also by the names that `tutti bench` takes: allreduce, bcast, alltoall.
Collective find_collective(const std::string& name) {
  const std::optional<bench::Measured> measured = bench::known_measured(name);
  if (measured && *measured != bench::Measured::send_recv) return bench::collective_of(*measured);
  return algorithms::find_collective(name);
}

void check_root(const Options& options) {
  if (options.root < 0 || options.root >= options.ranks)
    wrong(fmt::format("--root {} is outside 0 to {} (-n {})", options.root, options.ranks - 1, options.ranks));
}

void check_options(const Options& options) {
  if (options.ranks < 1 || options.ranks > most_ranks)
    wrong(fmt::format("-n takes 1 to {} ranks, not {}", most_ranks, options.ranks));
  if (!(options.latency >= 0 && options.latency <= 1e6))
    wrong(fmt::format("--latency takes 0 to 1000000 microseconds, not {}", options.latency));
  if (!(options.bandwidth >= 1e-3 && options.bandwidth <= 1e6))
    wrong(fmt::format("--bandwidth takes 0.001 to 1000000 GB/s, not {}", options.bandwidth));
  if (options.step && *options.step < 0)
    wrong(fmt::format("--step counts from 0, the start; there is no {}", *options.step));
  constexpr std::string_view transports[] = {"shm", "tcp", "inproc"};
  if (std::find(std::begin(transports), std::end(transports), options.transport) == std::end(transports))
    wrong(fmt::format("no transport \"{}\".{} There are shm, tcp and inproc.", options.transport,
                      did_you_mean(options.transport, transports)));
}

/// The table that tutti::connect() would use.
Choice ask_table(const algorithms::Situation& situation, std::string& why) {
  const std::string path = variable("TUTTI_TUNING_FILE").value_or("");
  if (path.empty()) return algorithms::TuningTable::builtin().select(situation, &why);
  std::ifstream file{path};
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) wrong(fmt::format("cannot read the tuning table {}", path));
  return algorithms::TuningTable::parse(text.str(), path).select(situation, &why);
}

/// --radix and --pipeline are other ways to write name:RADIX*PIPELINE, and are judged by the same rules.
Choice choose(const Options& options, Collective collective, std::string& why) {
  Choice chosen;
  if (options.algorithm.empty())
    chosen = ask_table({.collective = collective,
                        .ranks = options.ranks,
                        .bytes = size_of_text(options.bytes),
                        .transport = options.transport},
                       why);
  else
    chosen = algorithms::find(collective, options.algorithm);
  if (options.radix == 0 && options.pipeline == 0) return chosen;
  std::string name{chosen.entry->name};
  if (options.radix != 0 || chosen.entry->has_radix)
    name += fmt::format(":{}", options.radix != 0 ? options.radix : chosen.radix);
  if (options.pipeline == 0 && chosen.message != 0)
    chosen = settled(chosen, options.ranks, size_of_text(options.bytes));
  if (options.pipeline != 0 || chosen.pipeline != 1)
    name += fmt::format("*{}", options.pipeline != 0 ? options.pipeline : chosen.pipeline);
  return algorithms::find(collective, name);
}

int rank_in_front(const Options& options) {
  if (options.rank.empty() || options.rank == "all") return 0;
  int rank = -1;
  const char* const end = options.rank.data() + options.rank.size();
  const auto [stop, error] = std::from_chars(options.rank.data(), end, rank);
  if (error != std::errc{} || stop != end || rank < 0 || rank >= options.ranks)
    wrong(
        fmt::format("--rank takes 0 to {} (-n {}) or all, not \"{}\"", options.ranks - 1, options.ranks, options.rank));
  return rank;
}

/// Whose steps are shown: those that were asked for, else those of the first, or of few for programs.
std::vector<int> ranks_to_show(const Options& options) {
  const bool few = options.rank.empty() && options.json && options.ranks <= most_ranks_in_frames;
  if (options.rank != "all" && !few) return {rank_in_front(options)};
  std::vector<int> all(static_cast<std::size_t>(options.ranks));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

void check_step(const Options& options, const Replays& replays) {
  if (replays.empty()) wrong("these plans are not run step by step: too large, or with --explain");
  if (static_cast<std::size_t>(*options.step) >= replays.frames.size())
    wrong(fmt::format("--step takes 0 to {} here, not {}", replays.frames.size() - 1, *options.step));
  if (options.svg.empty() && !options.json && options.ranks > most_ranks_in_text)
    wrong(fmt::format("text has room for {} ranks; take fewer, or --json", most_ranks_in_text));
}

void print_steps(const Options& options, const View& view, const Replays& replays) {
  const std::vector<int> ranks = ranks_to_show(options);
  const std::size_t at_most = options.rank.empty() ? most_steps_unasked : everything;
  for (const algorithms::Plan& plan : view.plans)
    if (std::find(ranks.begin(), ranks.end(), plan.shape.rank) != ranks.end())
      std::fputs(steps(plan, replays, at_most).c_str(), stdout);
  if (replays.empty()) return;
  fmt::print(
      "\n# counts the steps of this rank's plan; \"step\" is that of all in which it ends.\n"
      "It waits for others of its rank, for a message, or to leave behind another.\n");
  if (options.rank.empty() && view.shape.ranks > 1) fmt::print("The other ranks: --rank R, or --rank all.\n");
}

void print_frames(const Options& options, const View& view, const Replays& replays) {
  std::fputs(frames_legend(view, replays).c_str(), stdout);
  const std::size_t frames = replays.frames.size();
  if (options.step)
    return (void)std::fputs(frame(view, replays, static_cast<std::size_t>(*options.step)).c_str(), stdout);
  for (std::size_t step = 0; step < std::min(frames, most_frames_unasked); ++step)
    std::fputs(frame(view, replays, step).c_str(), stdout);
  if (frames > most_frames_unasked)
    fmt::print("\n... {} more steps: --step {} and so on\n", frames - most_frames_unasked, most_frames_unasked);
}

void print_text(const Options& options, const View& view, const Replays& replays, const std::string& why) {
  std::fputs(heading(view).c_str(), stdout);
  if (!why.empty()) std::fputs(wrapped(fmt::format("Chosen for {}\n", why), 2).c_str(), stdout);
  if (options.explain) {
    if (why.empty()) fmt::print("Chosen by --algo; without it the tuning table is asked.\n");
    std::fputs(comparison(view, size_of_text(options.bytes)).c_str(), stdout);
    if (options.check) std::fputs(verdict(view).c_str(), stdout);
    return;
  }
  if (!view.complete()) fmt::print("The plans of all ranks would be too large to look at together.\n");
  std::fputs(trees(view).c_str(), stdout);
  const bool small = !replays.empty() && options.ranks <= most_ranks_in_frames;
  if (options.rank.empty() && (small || options.step))
    print_frames(options, view, replays);
  else
    print_steps(options, view, replays);
  if (!replays.empty()) std::fputs(footer(view, replays).c_str(), stdout);
  if (options.check || (view.complete() && !view.verdict.ok())) std::fputs(verdict(view).c_str(), stdout);
}

void write_picture(const Options& options, const View& view, const Replays& replays) {
  const std::string why_not = too_large_to_draw(replays);
  if (!why_not.empty()) wrong(why_not + "; take fewer ranks or a smaller pipeline");
  std::optional<std::size_t> step;
  if (options.step) step = static_cast<std::size_t>(*options.step);
  std::ofstream file{options.svg, std::ios::binary};
  file << to_svg(view, replays, step) << std::flush;
  if (!file)
    throw Error{ErrorCode::system, fmt::format("plan: cannot write {}: {}", options.svg, std::strerror(errno))};
  fmt::print("Drawn into {}: {}, {}\n", options.svg, plural(replays.frames.size() - 1, "step"),
             plural(replays.steps.messages.size(), "message"));
}

/// A plan from elsewhere; it says itself for how many ranks it is.
View view_of_import(Options& options, exchange::Foreign& foreign) {
  exchange::load_foreign(options.import, foreign);
  if (!options.collective.empty() && find_collective(options.collective) != foreign.view.collective)
    wrong(fmt::format("{} is for {}, not {}", options.import, name_of(foreign.view.collective), options.collective));
  options.ranks = foreign.view.shape.ranks;
  options.root = foreign.view.shape.root;
  check_options(options);
  check_root(options);
  foreign.view.shape.rank = rank_in_front(options);
  return foreign.view;
}

View view_of_choice(const Options& options, std::size_t bytes, std::string& why) {
  const Collective collective = find_collective(options.collective);
  check_options(options);
  check_root(options);
  const Choice choice = algorithms::settled(choose(options, collective, why), options.ranks, bytes);
  return make_view(collective, choice,
                   {rank_in_front(options), options.ranks, options.root, choice.pipeline, choice.radix});
}

int show_page(const Options& options, const CLI::App& app) {
  check_options(options);
  const bool any_ranks = !options.page.trace.empty() && app.count("--ranks") == 0;  // as many as there were
  if (!any_ranks) check_root(options);
  PageWish wish;
  if (!options.collective.empty()) wish.collective = find_collective(options.collective);
  wish.algorithm = options.algorithm;
  if (app.count("--ranks") > 0) wish.ranks = options.ranks;
  if (app.count("--root") > 0) wish.root = options.root;
  wish.step = options.step;
  if (app.count("--bytes") > 0) wish.bytes = size_of_text(options.bytes);
  wish.model = {size_of_text(options.bytes), options.latency, options.bandwidth};
  write_page(options.page, wish);
  return exit_success;
}

int show(Options options) {
  std::string why;
  const std::size_t bytes = size_of_text(options.bytes);
  exchange::Foreign foreign;
  const View view = options.import.empty() ? view_of_choice(options, bytes, why) : view_of_import(options, foreign);
  if (!view.complete() && (options.check || options.rank == "all"))
    wrong(fmt::format("the plans of {} ranks would be too large to look at together; take fewer ranks, or --rank R",
                      options.ranks));
  Replays replays;
  if (!options.explain) replays = make_replays(view, {bytes, options.latency, options.bandwidth});
  if (options.step) check_step(options, replays);
  exchange::write_files(options.outputs, view, bytes);
  if (!options.svg.empty()) write_picture(options, view, replays);
  if (!options.svg.empty() || options.outputs.any()) return exit_success;
  if (options.json)
    std::fputs(to_json(view, replays, ranks_to_show(options), why).c_str(), stdout);
  else
    print_text(options, view, replays, why);
  return view.complete() && !view.verdict.ok() ? exit_internal : exit_success;
}

int show_list(const Options& options) {
  std::vector<Collective> collectives;
  if (!options.collective.empty()) {
    collectives.push_back(find_collective(options.collective));
  } else {
    for (int i = 0; i < collective_count; ++i) collectives.push_back(static_cast<Collective>(i));
  }
  std::fputs((options.json ? list_as_json(collectives) : list(collectives)).c_str(), stdout);
  return exit_success;
}

}  // namespace

int plan_main(int argc, char** argv) {
  Options options;
  CLI::App app{"Shows, proves and explains what each rank does.", "tutti plan"};
  declare(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return exit_success;
  } catch (const CLI::ParseError& error) {
    wrong(error.what());
  }
  refuse_extras(app);
  if (options.list) return show_list(options);
  if (!options.page.html.empty()) return show_page(options, app);
  if (options.page.any()) wrong("--compare, --points, --trace and --call belong to --html FILE");
  if (options.collective.empty() && options.import.empty())
    wrong("which collective? For example: tutti plan all_reduce --algo ring");
  return show(options);
}

}  // namespace tutti::tools
