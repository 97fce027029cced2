// `tutti plan`: the command line. view.cc makes the text.

#include "cli/plan/plan.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/base/command_line.h"
#include "cli/base/exit_codes.h"
#include "cli/base/output.h"
#include "cli/base/sizes.h"
#include "cli/base/text.h"
#include "cli/measure/call.h"
#include "cli/plan/choice.h"
#include "cli/plan/frames.h"
#include "cli/plan/interchange/import.h"
#include "cli/plan/interchange/options.h"
#include "cli/plan/page/page.h"
#include "cli/plan/replay.h"
#include "cli/plan/streams.h"
#include "cli/plan/svg/svg.h"
#include "cli/plan/view.h"
#include "lib/base/suggest.h"
#include "tutti/error.h"

namespace tutti::cli {
namespace {

using algorithms::Choice;

constexpr std::size_t everything = std::numeric_limits<std::size_t>::max();
constexpr std::size_t most_steps_unasked = 40;   // of rank 0, if no rank was requested
constexpr std::size_t most_frames_unasked = 40;  // if no step was requested
constexpr int most_ranks = 4096;                 // the largest plans grow quadratically
constexpr int most_ranks_in_frames = 16;         // unless requested
constexpr int most_ranks_in_text = 36;           // one digit or letter each
constexpr int most_slots = 1024;

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
  tutti plan --import own.plan --svg own.svg                      your own plan, or another author's, proved and drawn
  tutti plan all_reduce --algo ring -n 4 --on gpu                 the commands of rank 0 on a stream of its GPU
  tutti plan --list)";

struct Options {
  std::string collective;
  std::string algorithm;
  std::string rank;
  std::string bytes = "1M";
  std::string transport = "tcp";
  std::string topology;
  std::string svg;
  std::string import;
  std::string on;
  std::string slot = "1M";
  interchange::Outputs outputs;
  PageOptions page;
  double latency = 10;      // us, of one message
  double bandwidth = 1.25;  // GB/s: 10 Gb/s
  int ranks = 4;
  std::optional<int> step;
  int root = 0;
  int pipeline = 0;  // 0: not given
  int radix = 0;
  std::optional<int> hosts;
  std::optional<int> gpus;
  int slots = 4;  // per link
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
  app.add_option("--rank", options.rank, "Show the steps of this rank (or of all ranks), and what each waits for");
  app.add_option("--step", options.step, "Show only the contents of all ranks after this step; 0 is the start");
  app.add_option("--bytes,--size", options.bytes, "Size of the vector, for times and the tuning table, e.g. 64K")
      ->capture_default_str();
  app.add_option("--latency", options.latency, "Microseconds that a message takes in addition to its bytes")
      ->capture_default_str();
  app.add_option("--bandwidth", options.bandwidth, "GB/s of a rank in each direction")->capture_default_str();
  app.add_option("--transport", options.transport, "Transport to look up in the tuning table: shm, tcp or inproc")
      ->capture_default_str();
  app.add_option("--topology", options.topology,
                 "Where the ranks are, in a file as for TUTTI_TOPOLOGY: for the tuning table, and for hierarchical");
  app.add_flag("--check", options.check, "Prove the plans of all ranks; exit code 1 if they are wrong");
  app.add_flag("--explain", options.explain, "Explain the choice of the algorithm, with the costs of the others");
  app.add_flag("--list", options.list, "List all algorithms, or those of COLLECTIVE");
  app.add_option("--svg", options.svg,
                 "Draw it to this file: one step (--step), the times, and the contents of each rank");
  app.add_option("--import", options.import,
                 "Take the plan from this file, proved first: a file of plans (--save), or a program of MSCCL (XML)")
      ->excludes("--algo", "--ranks", "--root", "--pipeline", "--radix", "--topology", "--explain", "--list");
  app.add_option("--msccl", options.outputs.msccl, "Write it as a program of MSCCL (XML)");
  app.add_option("--goal", options.outputs.goal, "Write it as a GOAL schedule for LogGOPSim");
  app.add_option("--goal-calc", options.outputs.calc_per_byte, "... in which reducing a byte takes that many ns")
      ->needs("--goal")
      ->capture_default_str();
  app.add_option("--save", options.outputs.save, "Write it for programs to run: TUTTI_PLAN_FILE");
  app.add_option("--html", options.page.html, "Write a page that plays it, and all other plans of 2 to 16 ranks")
      ->excludes("--import");
  app.add_option("--compare", options.page.compare, "For --html: two algorithms beside each other, e.g. ring,tree");
  app.add_option("--points", options.page.points, "For --html: measured times, from tutti bench -J FILE");
  app.add_option("--trace", options.page.trace,
                 "For --html: replay a call of this run, from tutti run --trace FILE, beside what its plan predicts");
  app.add_option("--call", options.page.call,
                 "For --trace: the call of the plan with this number; without it the longest");
  app.add_option("--on", options.on, "gpu: show the commands of each rank on a stream of its GPU")
      ->excludes("--step", "--explain", "--svg", "--html", "--msccl", "--goal", "--save");
  app.add_option("--hosts", options.hosts,
                 "Hosts of the ranks, as many on each: the table then chooses as it does there")
      ->excludes("--transport");
  app.add_option("--gpus", options.gpus, "For --on gpu: how many GPUs the ranks share, using each other's memory")
      ->needs("--on");
  app.add_option("--slots", options.slots, "For --on gpu: messages per link")->needs("--on")->capture_default_str();
  app.add_option("--slot", options.slot, "For --on gpu: size of such a message")->needs("--on")->capture_default_str();
  app.add_flag("--json", options.json, "Print JSON");
  app.footer(examples);
}

std::size_t size_of_text(const std::string& text, const char* option = "--bytes") {
  const std::optional<std::size_t> bytes = parse_bytes(text);
  if (!bytes) wrong(fmt::format("{} takes a size such as 8, 64K, 1M or 2G, not \"{}\"", option, text));
  return *bytes;
}

/// Also accepts the names that `tutti bench` accepts: allreduce, bcast, alltoall.
Collective find_collective(const std::string& name) {
  const std::optional<measure::MeasuredCall> call = measure::find_call(name);
  if (call && (call->form == measure::MeasuredCall::Form::usual || call == measure::all_to_all_v))
    return call->collective;
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
  if (const double ns = options.outputs.calc_per_byte; !(ns >= 0 && ns <= 1e6))
    wrong(fmt::format("--goal-calc takes 0 to 1000000 ns, not {}", ns));
  if (!options.on.empty() && options.on != "gpu") wrong(fmt::format("--on takes gpu, not \"{}\"", options.on));
  if (options.gpus && *options.gpus < 1) wrong(fmt::format("--gpus takes 1 or more, not {}", *options.gpus));
  if (options.hosts && (*options.hosts < 1 || options.ranks % *options.hosts != 0))
    wrong(fmt::format("--hosts takes a number that divides the number of ranks (-n {}), not {}", options.ranks,
                      *options.hosts));
  if (options.slots < 1 || options.slots > most_slots)
    wrong(fmt::format("--slots takes 1 to {}, not {}", most_slots, options.slots));
  if (options.step && *options.step < 0)
    wrong(fmt::format("--step counts from 0, the start; there is no {}", *options.step));
  constexpr std::string_view transports[] = {"shm", "tcp", "inproc"};
  if (std::find(std::begin(transports), std::end(transports), options.transport) == std::end(transports))
    wrong(fmt::format("no transport \"{}\".{} There are shm, tcp and inproc.", options.transport,
                      did_you_mean(options.transport, transports)));
}

Choice choose(const Options& options, Collective collective, std::string& why) {
  Choice chosen;
  std::vector<int> domains;
  if (!options.topology.empty()) domains = read_domains(options.topology, options.ranks);
  const int hosts = options.hosts.value_or(1);
  const int on_each = hosts > 1 ? options.ranks / hosts : 0;
  if (options.algorithm.empty())
    chosen = ask_table({.collective = collective,
                        .ranks = options.ranks,
                        .bytes = size_of_text(options.bytes),
                        .transport = on_each > 1 ? "hosts" : options.transport,
                        .ranks_on_each_host = on_each,
                        .domains = domains},
                       why);
  else
    chosen = algorithms::find(collective, options.algorithm);
  const bool radix_given = options.radix != 0 || options.algorithm.find(':') != std::string::npos;
  if (chosen.entry->has_domains && !radix_given && !options.algorithm.empty()) chosen.domains = domains;
  if (options.radix == 0 && options.pipeline == 0) return chosen;
  if (options.pipeline == 0) chosen = settled(chosen, options.ranks, size_of_text(options.bytes));
  return with_parameters(chosen, options.radix, options.pipeline);
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

/// The ranks whose steps are shown: the requested ones, else the first, or a few for programs.
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
      print_text(steps(plan, replays, at_most));
  if (replays.empty()) return;
  fmt::print(
      "\n# counts the steps of this rank's plan; \"step\" is that of all in which it ends.\n"
      "It waits for others of its rank, for a message, or to leave behind another.\n");
  if (options.rank.empty() && view.shape.ranks > 1) fmt::print("The other ranks: --rank R, or --rank all.\n");
}

void print_frames(const Options& options, const View& view, const Replays& replays) {
  print_text(frames_legend(view, replays));
  const std::size_t frames = replays.frames.size();
  if (options.step) return print_text(frame(view, replays, static_cast<std::size_t>(*options.step)));
  for (std::size_t step = 0; step < std::min(frames, most_frames_unasked); ++step)
    print_text(frame(view, replays, step));
  if (frames > most_frames_unasked)
    fmt::print("\n... {} more steps: --step {} and so on\n", frames - most_frames_unasked, most_frames_unasked);
}

void print_plan(const Options& options, const View& view, const Replays& replays, const std::string& why) {
  print_text(heading(view));
  if (!why.empty()) print_text(wrapped(fmt::format("Chosen for {}\n", why), 2));
  if (options.explain) {
    if (why.empty()) fmt::print("Chosen by --algo; without it the tuning table is asked.\n");
    print_text(comparison(view, size_of_text(options.bytes)));
    if (options.check) print_text(verdict(view));
    return;
  }
  if (!view.complete()) fmt::print("The plans of all ranks would be too large to look at together.\n");
  print_text(trees(view));
  const bool small = !replays.empty() && options.ranks <= most_ranks_in_frames;
  if (options.rank.empty() && (small || options.step))
    print_frames(options, view, replays);
  else
    print_steps(options, view, replays);
  if (!replays.empty()) print_text(footer(view, replays));
  if (options.check || (view.complete() && !view.verdict.ok())) print_text(verdict(view));
}

void write_picture(const Options& options, const View& view, const Replays& replays) {
  const std::string why_not = too_large_to_draw(replays);
  if (!why_not.empty()) wrong(why_not + "; take fewer ranks or a smaller pipeline");
  std::optional<std::size_t> step;
  if (options.step) step = static_cast<std::size_t>(*options.step);
  write_file("plan", options.svg, to_svg(view, replays, step));
  fmt::print("Drawn into {}: {}, {}\n", options.svg, plural(replays.frames.size() - 1, "step"),
             plural(replays.steps.messages.size(), "message"));
}

/// A plan from a file, which has its own number of ranks.
View view_of_import(Options& options, interchange::Foreign& foreign) {
  interchange::load_foreign("plan", options.import, foreign);
  if (!options.json) interchange::require_right("plan", options.import, foreign.view.verdict);
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
                   algorithms::shape_of(choice, rank_in_front(options), options.ranks, options.root));
}

int show_page(const Options& options, const CLI::App& app) {
  check_options(options);
  const bool any_ranks = !options.page.trace.empty() && app.count("--ranks") == 0;  // take it from the trace
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

int show_streams(const Options& options, const View& view, std::size_t bytes) {
  const GpuStreams streams = make_streams(view, {bytes, size_of_text(options.slot, "--slot"), options.slots,
                                                 ranks_to_show(options), options.gpus.value_or(0)});
  if (options.json) {
    print_text(streams_as_json(view, streams));
  } else {
    print_text(heading(view));
    print_text(streams_as_text(view, streams, options.rank.empty() ? most_steps_unasked : everything));
    if (options.check) print_text(verdict(view));
  }
  return exit_success;
}

int show(Options options) {
  std::string why;
  const std::size_t bytes = size_of_text(options.bytes);
  interchange::Foreign foreign;
  const View view = options.import.empty() ? view_of_choice(options, bytes, why) : view_of_import(options, foreign);
  if (!view.complete() && (options.check || options.rank == "all" || !options.on.empty()))
    wrong(fmt::format("the plans of {} ranks would be too large to look at together; take fewer ranks, or --rank R",
                      options.ranks));
  if (!options.on.empty()) return show_streams(options, view, bytes);
  Replays replays;
  if (!options.explain) replays = make_replays(view, {bytes, options.latency, options.bandwidth});
  if (options.step) check_step(options, replays);
  interchange::write_files(options.outputs, view, bytes);
  if (!options.svg.empty()) write_picture(options, view, replays);
  if (!options.svg.empty() || options.outputs.any()) return exit_success;
  if (options.json)
    print_text(to_json(view, replays, ranks_to_show(options), why));
  else
    print_plan(options, view, replays, why);
  if (!view.complete() || view.verdict.ok()) return exit_success;
  return options.import.empty() ? exit_internal : exit_usage;
}

int show_list(const Options& options) {
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
  Options options;
  CLI::App app{"Shows, proves and explains what each rank does.", "tutti plan"};
  declare(app, options);
  if (!parse_command_line(app, argc, argv, "plan")) return exit_success;
  if (options.list) return show_list(options);
  if (!options.page.html.empty()) return show_page(options, app);
  if (options.page.any()) wrong("--compare, --points, --trace and --call belong to --html FILE");
  if (options.collective.empty() && options.import.empty())
    wrong("which collective? For example: tutti plan all_reduce --algo ring");
  return show(options);
}

}  // namespace tutti::cli
