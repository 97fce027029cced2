// The command line of `tutti plan`, and the checks of its values.

#include "cli/plan/options.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <iterator>
#include <numeric>
#include <string_view>

#include "cli/base/sizes.h"
#include "cli/base/usage_error.h"
#include "lib/base/suggest.h"
#include "tutti/error.h"

namespace tutti::cli::plan {
namespace {

constexpr int most_ranks = 4096;  // the largest plans grow quadratically
constexpr int most_slots = 1024;

constexpr const char* plan_examples = R"(Examples:
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

}  // namespace

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
  app.add_flag("--oversubscribed", options.oversubscribed, "More ranks than cores, for the tuning table");
  app.add_option("--topology", options.topology,
                 "Where the ranks are, in a file as for TUTTI_TOPOLOGY: for the tuning table, and for hierarchical");
  app.add_flag("--check", options.check,
               "Prove the plans of all ranks; exit code 1 if they are wrong, 6 if those of --import are");
  app.add_flag("--explain", options.explain, "Explain the choice of the algorithm, with the costs of the others");
  app.add_flag("--list", options.list, "List all algorithms, or those of COLLECTIVE");
  app.add_option("--svg", options.svg,
                 "Draw it to this file: one step (--step), the times, and the contents of each rank");
  app.add_option("--import", options.import,
                 "Take the plan from this file, proved first: a file of plans (--save), or a program of MSCCL (XML)")
      ->excludes("--algo", "--ranks", "--root", "--pipeline", "--radix", "--oversubscribed", "--topology", "--explain",
                 "--list");
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
  app.add_flag("--json", options.json, "Print JSON")->excludes("--svg", "--html", "--msccl", "--goal", "--save");
  app.get_option("--html")->excludes("--svg", "--msccl", "--goal", "--save", "--check", "--explain", "--list", "--rank",
                                     "--pipeline", "--radix", "--transport", "--oversubscribed", "--topology",
                                     "--hosts");
  app.footer(plan_examples);
}

std::size_t size_of_text(const std::string& text, const char* option) {
  const std::optional<std::size_t> bytes = parse_bytes(text);
  if (!bytes) wrong("plan", fmt::format("{} takes a size such as 8, 64K, 1M or 2G, not \"{}\"", option, text));
  return *bytes;
}

void check_root(const Options& options) {
  if (options.root < 0 || options.root >= options.ranks)
    wrong("plan", fmt::format("--root {} is outside 0 to {} (-n {})", options.root, options.ranks - 1, options.ranks));
}

void check_options(const Options& options) {
  if (options.ranks < 1 || options.ranks > most_ranks)
    wrong("plan", fmt::format("-n takes 1 to {} ranks, not {}", most_ranks, options.ranks));
  if (!(options.latency >= 0 && options.latency <= 1e6))
    wrong("plan", fmt::format("--latency takes 0 to 1000000 microseconds, not {}", options.latency));
  if (!(options.bandwidth >= 1e-3 && options.bandwidth <= 1e6))
    wrong("plan", fmt::format("--bandwidth takes 0.001 to 1000000 GB/s, not {}", options.bandwidth));
  if (const double ns = options.outputs.calc_per_byte; !(ns >= 0 && ns <= 1e6))
    wrong("plan", fmt::format("--goal-calc takes 0 to 1000000 ns, not {}", ns));
  if (!options.on.empty() && options.on != "gpu") wrong("plan", fmt::format("--on takes gpu, not \"{}\"", options.on));
  if (options.gpus && *options.gpus < 1) wrong("plan", fmt::format("--gpus takes 1 or more, not {}", *options.gpus));
  if (options.hosts && (*options.hosts < 1 || options.ranks % *options.hosts != 0))
    wrong("plan", fmt::format("--hosts takes a number that divides the number of ranks (-n {}), not {}", options.ranks,
                              *options.hosts));
  if (options.slots < 1 || options.slots > most_slots)
    wrong("plan", fmt::format("--slots takes 1 to {}, not {}", most_slots, options.slots));
  if (options.step && *options.step < 0)
    wrong("plan", fmt::format("--step counts from 0, the start; there is no {}", *options.step));
  constexpr std::string_view transports[] = {"shm", "tcp", "inproc"};
  if (std::find(std::begin(transports), std::end(transports), options.transport) == std::end(transports))
    wrong("plan", fmt::format("no transport \"{}\".{} There are shm, tcp and inproc.", options.transport,
                              did_you_mean(options.transport, transports)));
}

int rank_in_front(const Options& options) {
  if (options.rank.empty() || options.rank == "all") return 0;
  int rank = -1;
  const char* const end = options.rank.data() + options.rank.size();
  const auto [stop, error] = std::from_chars(options.rank.data(), end, rank);
  if (error != std::errc{} || stop != end || rank < 0 || rank >= options.ranks)
    wrong("plan", fmt::format("--rank takes 0 to {} (-n {}) or all, not \"{}\"", options.ranks - 1, options.ranks,
                              options.rank));
  return rank;
}

std::vector<int> ranks_to_show(const Options& options) {
  const bool few = options.rank.empty() && options.json && options.ranks <= most_ranks_in_frames;
  if (options.rank != "all" && !few) return {rank_in_front(options)};
  std::vector<int> all(static_cast<std::size_t>(options.ranks));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace tutti::cli::plan
