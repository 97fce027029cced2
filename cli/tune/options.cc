// The command line of `tutti tune`.

#include "cli/tune/options.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <iterator>
#include <span>
#include <sstream>
#include <string_view>

#include "cli/base/command_line.h"
#include "cli/base/sizes.h"
#include "cli/base/usage_error.h"
#include "cli/measure/call.h"
#include "cli/measure/rank_sync.h"
#include "cli/tune/gpus.h"
#include "lib/base/environment.h"
#include "lib/base/suggest.h"
#include "tutti/error.h"

namespace tutti::cli::tune {
namespace {

constexpr std::size_t tune_sizes[] = {4,         1 << 10, 4 << 10, 16 << 10, 64 << 10,
                                      256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20};
constexpr std::size_t check_sizes[] = {4, 1 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20};
constexpr double check_seconds = 240;

constexpr const char* tune_examples =
    "Examples:\n"
    "  tutti tune                                       everything, in under a minute, into tutti.tuning\n"
    "  export TUTTI_TUNING_FILE=$PWD/tutti.tuning       the table that programs use from then on\n"
    "  tutti tune all_reduce -g 4 --transport shm --time 10 -o four.tuning\n"
    "  tutti tune --on gpu -g 2,4 -o gpu.tuning         calls on memory of this machine's GPUs\n"
    "  tutti tune --check --table tutti.tuning          how much its choices lose against the best\n";

/// The words of the command line before they are converted.
struct Words {
  std::vector<std::string> collectives;
  std::string ranks = "2,4,8";
  std::string transports;
  std::string on = "host";
  std::string least = "0";
  std::string most;
  std::string seconds;
  std::string bind_to = "core";
};

void declare(CLI::App& app, Options& options, Words& words) {
  app.set_help_flag("-h,--help", "Show this help");
  app.add_option("COLLECTIVE", words.collectives, "Collectives to measure: all_reduce, broadcast, ... (all)");
  app.add_option("-g,--ranks", words.ranks, "Numbers of ranks")->capture_default_str();
  app.add_option("--on", words.on, "Memory of the host, or of a gpu: ranks share the GPUs of this machine")
      ->capture_default_str();
  app.add_option("--transport", words.transports,
                 "shm, tcp or both (shm,tcp); on gpu cuda_leader, cuda_peers or cuda_ipc (what the ranks have)");
  app.add_option("-b,--minbytes", words.least, "Smallest size")->capture_default_str();
  app.add_option("-e,--maxbytes", words.most, "Largest size (16M; with --check 64M)");
  app.add_option("--time", words.seconds, "Total seconds (55; with --check 240)");
  app.add_option("-o,--output", options.output, "The table to write")->capture_default_str();
  app.add_flag("--force", options.force, "Overwrite it if it exists");
  app.add_option("--bind-to", words.bind_to, "core: bind each rank to its share of the cores; or none")
      ->capture_default_str();
  app.add_flag("--check", options.check, "Write no table; measure each choice beside all others, and look for cliffs");
  app.add_option("--table", options.table, "With --check: the table to judge (TUTTI_TUNING_FILE, or the built-in one)");
  app.add_option("--csv", options.csv, "With --check: also write every point to this file");
  app.footer(tune_examples);
}

std::vector<std::string> list(const std::string& text) {
  std::vector<std::string> words;
  std::stringstream stream{text};
  for (std::string word; std::getline(stream, word, ',');) words.push_back(word);
  return words;
}

bool is_tuned(measure::MeasuredCall call) { return call.form == measure::MeasuredCall::Form::usual; }

std::vector<measure::MeasuredCall> tuned_calls() {
  std::vector<measure::MeasuredCall> calls;
  std::ranges::copy_if(measure::all_calls, std::back_inserter(calls), is_tuned);
  return calls;
}

/// Also accepts the names that `tutti bench` accepts: allreduce, bcast, alltoall.
measure::MeasuredCall call_of(const std::string& name) {
  const std::optional<measure::MeasuredCall> known = measure::find_call(name);
  if (known && is_tuned(*known)) return *known;
  if (known == measure::all_to_all_v) wrong("tune", "a _v call follows its collective; give alltoall");
  if (known == measure::send_recv) wrong("tune", fmt::format("{} has no algorithms to choose from", name));
  std::vector<std::string_view> names;
  for (const measure::MeasuredCall call : tuned_calls()) names.push_back(measure::name_of(call));
  wrong("tune",
        fmt::format("no collective \"{}\".{} Known are {}", name, did_you_mean(name, names), fmt::join(names, ", ")));
}

std::vector<measure::MeasuredCall> calls_of(const std::vector<std::string>& names) {
  std::vector<measure::MeasuredCall> calls;
  for (const std::string& name : names)
    if (const measure::MeasuredCall call = call_of(name); std::find(calls.begin(), calls.end(), call) == calls.end())
      calls.push_back(call);
  return names.empty() ? tuned_calls() : calls;
}

/// A barrier has no memory, so that it is one of the host.
void leave_out_host_calls(Options& options, const Words& words) {
  const auto is_barrier = [](measure::MeasuredCall call) { return call == Collective::barrier; };
  if (!words.collectives.empty() && std::ranges::any_of(options.calls, is_barrier))
    wrong("tune", "a barrier has no memory that could be on a GPU; leave out --on gpu");
  std::erase_if(options.calls, is_barrier);
}

std::vector<int> ranks_of(const std::string& text) {
  std::vector<int> ranks;
  for (const std::string& word : list(text)) {
    int value = 0;
    const auto [stop, problem] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (problem != std::errc{} || stop != word.data() + word.size() || value < 2 || value > measure::most_ranks)
      wrong("tune", fmt::format("-g takes numbers of ranks from 2 to {}, such as 2,4,8, not \"{}\"",
                                measure::most_ranks, word));
    ranks.push_back(value);
  }
  if (ranks.empty()) wrong("tune", "-g takes numbers of ranks, such as 2,4,8");
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

/// `given`: the option was, so that it is not empty.
std::vector<std::string> transports_of(const std::string& text, bool given, bool on_gpu) {
  constexpr std::string_view of_host[] = {"shm", "tcp"};
  using Known = std::span<const std::string_view>;
  const Known known = on_gpu ? Known{gpu_kinds} : Known{of_host};
  if (!given && !on_gpu) return {std::begin(of_host), std::end(of_host)};
  std::vector<std::string> transports = list(text);
  for (const std::string& word : transports)
    if (std::find(known.begin(), known.end(), word) == known.end())
      wrong("tune", fmt::format("no transport \"{}\" {}.{} There are {}.", word, on_gpu ? "of GPUs" : "on one host",
                                did_you_mean(word, known), fmt::join(known, ", ")));
  for (auto one = transports.begin(); one != transports.end(); ++one)
    transports.erase(std::remove(one + 1, transports.end(), *one), transports.end());
  if (given && transports.empty()) wrong("tune", fmt::format("--transport takes some of {}", fmt::join(known, ", ")));
  return transports;
}

std::size_t size_of(const char* option, const std::string& text) {
  const std::optional<std::size_t> bytes = parse_bytes(text);
  if (!bytes) wrong("tune", fmt::format("{} takes a size such as 8, 64K or 1M, not \"{}\"", option, text));
  return *bytes;
}

std::vector<std::size_t> sizes_of(const Options& options, const Words& words) {
  const std::size_t least = size_of("-b", words.least);
  const std::size_t most = size_of("-e", !words.most.empty() ? words.most : options.check ? "64M" : "16M");
  std::vector<std::size_t> sizes;
  const auto take = [&](std::size_t size) {
    if (size >= least && size <= most) sizes.push_back(size);
  };
  if (options.check) std::for_each(std::begin(check_sizes), std::end(check_sizes), take);
  if (!options.check) std::for_each(std::begin(tune_sizes), std::end(tune_sizes), take);
  if (sizes.empty())
    wrong("tune", fmt::format("no size is measured from -b {} to {}: 4, 1K, 64K, 1M ... are", least, most));
  return sizes;
}

double seconds_of(const std::string& text, double usual) {
  if (text.empty()) return usual;
  double value = 0;
  const auto [stop, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc{} || stop != text.data() + text.size() || !(value > 0) || value > 86400)
    wrong("tune", fmt::format("--time takes seconds, more than 0, not \"{}\"", text));
  return value;
}

}  // namespace

Options parse_options(int argc, char** argv) {
  Options options;
  Words words;
  CLI::App app{"Finds the fastest algorithm for each collective, size, number of ranks and transport on this machine.",
               "tutti tune"};
  declare(app, options, words);
  options.help = !parse_command_line(app, argc, argv, "tune");
  if (options.help) return options;
  if (words.on != "host" && words.on != "gpu")
    wrong("tune", fmt::format("--on takes host or gpu, not \"{}\"", words.on));
  options.on_gpu = words.on == "gpu";
  options.calls = calls_of(words.collectives);
  if (options.on_gpu) leave_out_host_calls(options, words);
  options.ranks = ranks_of(words.ranks);
  options.transports = transports_of(words.transports, app.count("--transport") > 0, options.on_gpu);
  options.sizes = sizes_of(options, words);
  options.seconds = seconds_of(words.seconds, options.check ? check_seconds : options.seconds);
  if (words.bind_to != "core" && words.bind_to != "none")
    wrong("tune", fmt::format("--bind-to takes core or none, not \"{}\"", words.bind_to));
  options.bind_to_core = words.bind_to == "core";
  if (!options.check && (!options.table.empty() || !options.csv.empty()))
    wrong("tune", "--table and --csv belong to --check");
  if (options.check && options.force) wrong("tune", "--check writes no table; leave out --force");
  if (options.check && app.count("--output") > 0) wrong("tune", "--check writes no table; leave out -o");
  if (options.check && options.table.empty()) options.table = variable("TUTTI_TUNING_FILE").value_or("");
  return options;
}

}  // namespace tutti::cli::tune
