// `tutti simulate`: the command line. The model is in the other files of this folder.

#include "cli/simulate/simulate.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "cli/base/command_line.h"
#include "cli/base/exit_codes.h"
#include "cli/base/input_file.h"
#include "cli/base/output.h"
#include "cli/base/progress.h"
#include "cli/base/sizes.h"
#include "cli/base/stop_request.h"
#include "cli/base/usage_error.h"
#include "cli/plan/interchange/import.h"
#include "cli/simulate/calibrate.h"
#include "cli/simulate/regret.h"
#include "cli/simulate/runs.h"
#include "cli/simulate/simgrid.h"
#include "cli/simulate/summit.h"
#include "lib/base/collective_traits.h"
#include "lib/base/suggest.h"
#include "tutti/error.h"

namespace tutti::cli {
namespace {

using simulate::NetworkFile;
using simulate::Timed;

constexpr std::size_t most_simulated_ranks = 1 << 17;
constexpr int most_on_host = 2;  // more would share cores, which the model does not include

constexpr const char* simulate_examples = R"(Examples:
  tutti simulate                                           ring and tree on Summit, beside the published curves
  tutti simulate all_reduce --algo ring,tree_of_chains:6 -n 24576 --size 8 --net summit
  tutti simulate all_reduce -n 64 --size 8-64M --net 100g --svg curves.svg
  tutti simulate all_reduce -n 16-1024 --size 8,1M --net 100g --regret
  tutti simulate --import own.plan --algo ring,tree --size 8-1M --net 100g
  tutti simulate all_reduce -n 2-16 --size 8,1M --net 100g --simgrid
  tutti simulate all_reduce --algo direct,ring -n 2-8 --size 1K-256M --net h200    ranks that share one GPU
  tutti simulate --calibrate > here.net                    measure this machine
  tutti simulate --print-net 100g > mine.net               a network file to begin with (docs/simulate.md))";

struct SimulateOptions {
  std::string collective;
  std::string algorithms;
  std::string ranks = "64";
  std::string sizes = "8,64K,16M";
  std::string network = "summit";
  std::string import;
  std::string csv;
  std::string svg;
  std::string print_network;
  std::string table;
  std::string transport = "tcp";
  std::string namespaces;
  int root = 0;
  bool summit = false;
  bool regret = false;
  bool simgrid = false;
  bool calibrate = false;
};

void declare(CLI::App& app, SimulateOptions& options) {
  app.set_help_flag("-h,--help", "Show this help");
  app.add_option("COLLECTIVE", options.collective, "all_reduce, broadcast, ... (tutti plan --list)");
  app.add_option("--algo,--algorithm", options.algorithms,
                 "NAME[,NAME...], each name:RADIX*PIPELINE or name/MESSAGE; without it all of the collective");
  app.add_option("-n,--ranks", options.ranks, "64, 96,768,24576 or 16-1024 (doubling)")->capture_default_str();
  app.add_option("--size,--bytes", options.sizes, "8, 8,64K,16M or 8-64M (in steps of four)")->capture_default_str();
  app.add_option("--net", options.network, "summit, summit-physical, 100g, h200 or a file")->capture_default_str();
  app.add_option("--root", options.root, "Rank that has the input or gets the result")->capture_default_str();
  app.add_option("--csv", options.csv, "Write the results to this file as CSV");
  app.add_option("--svg", options.svg, "Draw the curves to this SVG file");
  app.add_option("--print-net", options.print_network, "Print a network that comes with the program, and exit");
  app.add_flag("--summit", options.summit,
               "Show the published curves of Summit beside simulated ones (-n: the most GPUs)");
  app.add_flag("--regret", options.regret, "Show where the tuning table loses to the best algorithm, and by how much");
  app.add_option("--table", options.table, "... of this tuning table, instead of the built-in one")->needs("--regret");
  app.add_flag("--simgrid", options.simgrid, "Compare our times with those of SimGrid (docs/simulate.md)");
  app.add_flag("--calibrate", options.calibrate, "Measure two ranks of this machine, and print the network file");
  app.add_option("--transport", options.transport, "... over tcp or shm")->needs("--calibrate")->capture_default_str();
  app.add_option("--namespaces", options.namespaces,
                 "... between these (ip netns), and predict calls of 2 ranks up to one in each (tools/hosts)")
      ->needs("--calibrate");
  app.add_option("--import", options.import,
                 "Time the plan of this file (docs/interchange.md), and the algorithms of --algo beside it")
      ->excludes("--ranks", "--root", "--summit", "--regret", "--simgrid", "--calibrate");
  app.footer(simulate_examples);
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> words;
  std::istringstream stream{list};
  for (std::string word; std::getline(stream, word, ',');) words.push_back(word);
  return words;
}

/// "8,64K" or "8-64M", which is cut into steps of `factor`.
std::vector<std::size_t> numbers(const std::string& list, const char* option, std::size_t factor) {
  const auto one = [&](const std::string& word) {
    const auto value = parse_bytes(word);
    const bool is_whole = std::string_view{option} != "-n" || word.find('.') == std::string::npos;
    if (!value || !is_whole)
      wrong("simulate", fmt::format("{} takes numbers such as 8, 64K or 8-1M, not \"{}\"", option, word));
    return *value;
  };
  std::vector<std::size_t> found;
  for (const std::string& word : split(list)) {
    const std::size_t dash = word.find('-', 1);  // at the front it is a sign
    const std::size_t first = one(word.substr(0, dash));
    const std::size_t last = dash == std::string::npos ? first : one(word.substr(dash + 1));
    if (last < first || (first == 0 && last > 0))
      wrong("simulate", fmt::format("{}: \"{}\" is not a range", option, word));
    for (std::size_t value = first; value < last; value *= factor) found.push_back(value);
    found.push_back(last);
  }
  if (found.empty()) wrong("simulate", fmt::format("{} needs a number", option));
  return found;
}

/// Those of --size; a barrier has none.
std::vector<std::size_t> sizes_of(const SimulateOptions& options, Collective collective) {
  const std::vector<std::size_t> sizes = numbers(options.sizes, "--size", 4);
  return collective == Collective::barrier ? std::vector<std::size_t>{0} : sizes;
}

std::vector<int> rank_counts(const SimulateOptions& options) {
  std::vector<int> found;
  for (const std::size_t n : numbers(options.ranks, "-n", 2)) {
    if (n < 1 || n > most_simulated_ranks)
      wrong("simulate", fmt::format("-n takes 1 to {} ranks, not {}", most_simulated_ranks, n));
    if (options.root < 0 || static_cast<std::size_t>(options.root) >= n)
      wrong("simulate", fmt::format("--root {} is outside 0 to {} (-n {})", options.root, n - 1, n));
    found.push_back(static_cast<int>(n));
  }
  return found;
}

/// Those of --algo. Without it they are all of the collective, or none beside an imported plan.
std::vector<algorithms::Choice> choices(const SimulateOptions& options, Collective collective) {
  std::vector<algorithms::Choice> found;
  for (const std::string& name : split(options.algorithms)) found.push_back(algorithms::find(collective, name));
  if (found.empty() && options.import.empty())
    for (const algorithms::Entry& entry : algorithms::catalogue(collective))
      found.push_back(algorithms::find(collective, entry.name));
  return found;
}

void write(const std::string& path, const std::string& text) { write_file("simulate", path, text); }

/// Shows the progress on a terminal until the work is done.
template <class Work>
auto with_progress(const Work& work) {
  const Progress progress;
  return work([&](const std::string& text) { progress.show(text); });
}

int show_summit(const SimulateOptions& options, bool ranks_given) {
  const std::vector<int> asked = rank_counts(options);
  const int most = ranks_given ? *std::max_element(asked.begin(), asked.end()) : simulate::published.back().ranks;
  if (most < simulate::published.front().ranks) wrong("simulate", "the curves of Summit begin with 96 GPUs");
  const auto latency = with_progress([&](const simulate::Told& tell) { return simulate::summit_latency(most, tell); });
  fmt::print("{}\n", to_text(latency));
  flush_output();
  const auto bandwidth =
      with_progress([&](const simulate::Told& tell) { return simulate::summit_bandwidth(most, tell); });
  print_text(to_text(bandwidth));
  std::vector<Timed> all;
  for (const auto* part : {&latency.ring, &latency.tree, &bandwidth.ring, &bandwidth.tree})
    all.insert(all.end(), part->begin(), part->end());
  if (!options.csv.empty()) write(options.csv, to_csv(all));
  if (!options.svg.empty()) write(options.svg, to_svg(all, "all_reduce on Summit, simulated with fitted constants"));
  return exit_success;
}

int show_regret(const SimulateOptions& options, Collective collective) {
  algorithms::TuningTable table = algorithms::TuningTable::builtin();
  if (!options.table.empty())
    table = algorithms::TuningTable::parse(read_input("simulate", options.table), options.table);
  const NetworkFile file = NetworkFile::open(options.network);
  if (file.is_gpu()) wrong("simulate", "--regret is about networks, and ranks share a GPU in this file; leave it out");
  fmt::print("{} on: {}\n\n", name_of(collective), file.name());
  flush_output();
  const auto found = with_progress([&](const simulate::Told& tell) {
    return simulate::regret(table, collective, rank_counts(options), sizes_of(options, collective), file, tell);
  });
  print_text(to_text(found));
  return exit_success;
}

int show_beside_simgrid(const SimulateOptions& options, Collective collective, const std::vector<Timed>& all) {
  const auto checked =
      with_progress([&](const simulate::Told& tell) { return simulate::check_by_simgrid(all, options.network, tell); });
  fmt::print("{} on: {}\n\n{}", name_of(collective), NetworkFile::open(options.network).name(), to_table(checked));
  if (!options.csv.empty()) write(options.csv, to_csv(checked));
  return exit_success;
}

/// `foreign` has the imported plan, if any.
int show(const SimulateOptions& options, Collective collective, const interchange::Foreign& foreign) {
  const NetworkFile file = NetworkFile::open(options.network);
  if (options.simgrid && file.is_gpu())
    wrong("simulate", "--simgrid is about networks, and ranks share a GPU in this file; leave it out");
  const std::vector<std::size_t> sizes = sizes_of(options, collective);
  std::vector<simulate::Job> jobs;
  for (const int ranks : rank_counts(options))
    for (const std::size_t size : sizes) {
      const std::size_t bytes = simulate::moved_bytes(collective, ranks, size);
      if (!options.import.empty())
        jobs.push_back({{collective, foreign.view.choice, ranks, options.root, bytes, &foreign.given.plans},
                        file.for_algorithm(foreign.entry.name)});
      for (const algorithms::Choice& choice : choices(options, collective))
        jobs.push_back(
            {{collective, settled(choice, ranks, bytes), ranks, options.root, bytes, nullptr, to_string(choice)},
             file.for_algorithm(choice.entry->name)});
    }
  if (options.simgrid) simulate::refuse_without_simgrid(jobs);
  const auto all = with_progress([&](const simulate::Told& tell) { return simulate_all(jobs, tell); });
  if (options.simgrid) return show_beside_simgrid(options, collective, all);
  double effort = 0;
  for (const Timed& one : all) effort += one.effort;
  fmt::print("{} on: {}\n\n{}\nSimulated in {:.1f} s of one core.\n", name_of(collective), file.name(), to_table(all),
             effort);
  if (!options.csv.empty()) write(options.csv, to_csv(all));
  if (!options.svg.empty()) write(options.svg, to_svg(all, fmt::format("{} on {}", name_of(collective), file.name())));
  return exit_success;
}

/// A plan from a file, which has its own collective, number of ranks and root.
int show_import(SimulateOptions options) {
  interchange::Foreign foreign;
  interchange::load_foreign("simulate", options.import, foreign);
  interchange::require_right("simulate", options.import, foreign.view.verdict);
  const Collective collective = foreign.view.collective;
  if (!options.collective.empty() && algorithms::find_collective(options.collective) != collective)
    wrong("simulate", fmt::format("{} is for {}, not {}", options.import, name_of(collective), options.collective));
  options.ranks = fmt::format("{}", foreign.view.shape.ranks);
  options.root = foreign.view.shape.root;
  return show(options, collective, foreign);
}

int print_network(const std::string& name) {
  std::vector<std::string_view> names;
  for (const simulate::BuiltinNetwork& one : simulate::builtin_networks()) {
    names.push_back(one.name);
    if (one.name != name) continue;
    fmt::print("{}", one.text);
    return exit_success;
  }
  wrong("simulate", fmt::format("no network \"{}\" comes with the program.{}", name, did_you_mean(name, names)));
}

int calibrate(SimulateOptions options, bool ranks_given, bool sizes_given) {
  if (options.transport != "tcp" && options.transport != "shm")
    wrong("simulate", fmt::format("--transport takes tcp or shm, not \"{}\"", options.transport));
  const simulate::Placement place{options.transport, split(options.namespaces)};
  const bool apart = !place.namespaces.empty();
  if (apart && options.transport != "tcp") wrong("simulate", "only tcp connects the --namespaces");
  if (place.namespaces.size() == 1)
    wrong("simulate", fmt::format("--namespaces takes two or more, not \"{}\" alone", place.namespaces.front()));
  if (!ranks_given) options.ranks = apart ? fmt::format("2-{}", place.namespaces.size()) : "2";
  if (!sizes_given) options.sizes = apart ? "1K-16M" : "1K,64K,1M,8M";
  const simulate::Trials trials{rank_counts(options), numbers(options.sizes, "--size", 4)};
  for (const int ranks : trials.ranks)
    if (ranks < 2 || (apart ? static_cast<std::size_t>(ranks) > place.namespaces.size() : ranks > most_on_host))
      wrong("simulate", fmt::format("-n takes 2 to {} here, not {}",
                                    apart ? static_cast<int>(place.namespaces.size()) : most_on_host, ranks));
  listen_for_stop();
  simulate::calibrate(place, trials);
  return exit_success;
}

/// What is asked for, by its option, and the options that have an effect on it.
struct Mode {
  std::string_view option;
  std::vector<std::string_view> heeds;
};

Mode mode_of(const SimulateOptions& options) {
  if (!options.print_network.empty()) return {"--print-net", {}};
  if (options.calibrate) return {"--calibrate", {"--transport", "--namespaces", "--ranks", "--size"}};
  if (!options.import.empty()) return {"--import", {"COLLECTIVE", "--algo", "--size", "--net", "--csv", "--svg"}};
  if (options.summit) return {"--summit", {"--ranks", "--csv", "--svg"}};
  if (options.regret) return {"--regret", {"COLLECTIVE", "--ranks", "--size", "--net", "--table"}};
  return {"--simgrid", {"COLLECTIVE", "--algo", "--ranks", "--size", "--net", "--root", "--csv"}};
}

void refuse_without_effect(const CLI::App& app, const Mode& mode) {
  if (app.count(std::string{mode.option}) == 0) return;  // the usual one heeds all others
  for (const CLI::Option* option : app.get_options())
    if (option->count() > 0 && !option->check_name(std::string{mode.option}) &&
        std::ranges::none_of(mode.heeds, [&](std::string_view name) { return option->check_name(std::string{name}); }))
      wrong("simulate",
            fmt::format("{} has no effect with {}; leave one of them out", option->get_name(), mode.option));
}

/// The published curves are of one collective on one network, so other options would have no effect.
void refuse_without_collective(const CLI::App& app) {
  for (const char* const name : {"--net", "--size", "--root", "--simgrid"})
    if (app.count(name) > 0)
      wrong("simulate", fmt::format("{} needs a collective: tutti simulate all_reduce {} ...", name, name));
}

}  // namespace

int simulate_main(int argc, char** argv) {
  SimulateOptions options;
  CLI::App app{"Times plans on a modelled network, up to tens of thousands of ranks.", "tutti simulate"};
  declare(app, options);
  if (!parse_command_line(app, argc, argv, "simulate")) return exit_success;
  refuse_without_effect(app, mode_of(options));
  require_output("simulate");
  for (const std::string& file : {options.csv, options.svg}) require_folder("simulate", file);
  if (!options.print_network.empty()) return print_network(options.print_network);
  if (options.calibrate) return calibrate(options, app.count("--ranks") > 0, app.count("--size") > 0);
  if (!options.import.empty()) return show_import(options);
  const bool asks_for_nothing = options.collective.empty() && options.algorithms.empty() && !options.regret;
  if (asks_for_nothing && !options.summit) refuse_without_collective(app);
  if (options.summit || asks_for_nothing) return show_summit(options, app.count("--ranks") > 0);
  if (options.collective.empty()) wrong("simulate", "which collective? For example: tutti simulate all_reduce -n 1024");
  const Collective collective = algorithms::find_collective(options.collective);
  if (app.count("--root") > 0 && !detail::is_rooted(collective))
    wrong("simulate", fmt::format("--root has no effect: {} has no root", name_of(collective)));
  return options.regret ? show_regret(options, collective) : show(options, collective, {});
}

}  // namespace tutti::cli
