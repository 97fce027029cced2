// The command line of `tutti bench`: one table of options, each with exactly one value, as in nccl-tests (even its
// switches take 0 or 1); only two switches of ours take none. A value may follow a letter directly (-b8) or as the next
// word. Long names may be abbreviated, with '-' and '_' alike.

#include "cli/bench/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <sstream>

#include "cli/base/sizes.h"
#include "cli/base/text.h"
#include "cli/base/usage_error.h"
#include "lib/base/most_ranks.h"
#include "lib/base/suggest.h"
#include "tutti/error.h"

namespace tutti::cli::bench {
namespace {

using Text = const std::string&;

int whole(Text option, Text text, int least, int most = 1 << 30) {
  int value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end || value < least || value > most)
    wrong("bench", fmt::format("{} takes a whole number from {} to {}, not \"{}\"", option, least, most, text));
  return value;
}

bool yes_or_no(Text option, Text text) { return whole(option, text, 0, 1) == 1; }

double seconds(Text option, Text text) {
  char* rest = nullptr;
  const double value = std::strtod(text.c_str(), &rest);
  if (rest == text.c_str() || *rest != '\0' || !(value >= 0) || value > 1e6)
    wrong("bench", fmt::format("{} takes seconds, not \"{}\"", option, text));
  return value;
}

/// The index of `text` in `words`.
template <class Enum>
Enum one_of(Text option, Text text, const std::vector<std::string_view>& words) {
  const auto found = std::find(words.begin(), words.end(), text);
  if (found == words.end()) {
    std::string known;
    for (const std::string_view word : words) known += fmt::format("{}{}", known.empty() ? "" : ", ", word);
    wrong("bench", fmt::format("{} takes one of {}, not \"{}\".{}", option, known, text, did_you_mean(text, words)));
  }
  return static_cast<Enum>(found - words.begin());
}

std::vector<std::string> list(Text text) {
  std::vector<std::string> words;
  std::stringstream stream{text};
  for (std::string word; std::getline(stream, word, ',');)
    if (!word.empty()) words.push_back(word);
  return words;
}

void for_gpus(Options&, Text option, Text text) {
  if (text != "0")
    throw Error{
        ErrorCode::unsupported,
        fmt::format("bench: {} {} is about CUDA; buffers here are host memory, only 0 is accepted", option, text)};
}

void without_effect(Options&, Text option, Text text) { whole(option, text, 0, 1); }

struct Option {
  char letter;  ///< 0: none
  std::string_view name;
  std::string_view value;
  std::string_view meaning;
  void (*set)(Options& options, Text option, Text text);
};

using O = Options;

constexpr Option options_there[] = {
    {'t', "nthreads", "N", "ranks to start: -t times -g (1)", [](O& o, Text n, Text v) { o.threads = whole(n, v, 1); }},
    {'g', "ngpus", "N", "ranks to start (1); under a launcher each process is one rank",
     [](O& o, Text n, Text v) { o.gpus = whole(n, v, 1); }},
    {'b', "minbytes", "SIZE", "first size, with K, M, G (32M)",
     [](O& o, Text n, Text v) { o.min_bytes = parse_size(n, v); }},
    {'e', "maxbytes", "SIZE", "last size (32M)", [](O& o, Text n, Text v) { o.max_bytes = parse_size(n, v); }},
    {'i', "stepbytes", "SIZE", "step from one size to the next (1M)",
     [](O& o, Text n, Text v) { o.step_bytes = parse_size(n, v); }},
    {'f', "stepfactor", "N", "factor from one size to the next, instead of a step",
     [](O& o, Text n, Text v) { o.step_factor = static_cast<std::size_t>(whole(n, v, 1)); }},
    {'n', "iters", "N", "timed iterations (20, or as many as take 2 ms)",
     [](O& o, Text n, Text v) { o.iterations = whole(n, v, 1, most_iterations); }},
    {'m', "agg_iters", "N", "calls per iteration (1)", [](O& o, Text n, Text v) { o.aggregate = whole(n, v, 1); }},
    {'w', "warmup_iters", "N", "untimed iterations before (50, or as many as take 20 ms)",
     [](O& o, Text n, Text v) { o.warmup = whole(n, v, 0); }},
    {'N', "run_cycles", "N", "repetitions of the whole table; 0: until interrupted (1)",
     [](O& o, Text n, Text v) { o.cycles = whole(n, v, 0); }},
    {'p', "parallel_init", "0|1", "accepted, without effect", without_effect},
    {'c', "check", "N", "verified repetitions per row (1)", [](O& o, Text n, Text v) { o.check = whole(n, v, 0); }},
    {'o', "op", "OP", "sum prod min max avg mulsum, or all of these; band bor bxor (sum)",
     [](O& o, Text, Text v) { o.op = v; }},
    {'d', "datatype", "TYPE",
     "int8 uint8 int32 uint32 int64 uint64 half float double bfloat16, or all of these; int16 uint16 bool "
     "complex64 complex128 (float)",
     [](O& o, Text, Text v) { o.type = v; }},
    {'r', "root", "RANK", "root, or all (0)",
     [](O& o, Text n, Text v) { o.root = v == "all" || v == "-1" ? "all" : std::to_string(whole(n, v, 0)); }},
    {'z', "blocking", "0|1|3", "1: barrier after each call; 3: after each iteration, not timed (0)",
     [](O& o, Text n, Text v) {
       constexpr int known[] = {0, 1, 3};
       o.blocking = known[one_of<std::size_t>(n, v, {"0", "1", "3"})];
     }},
    {'y', "stream_null", "0", "CUDA only", for_gpus},
    {'T', "timeout", "SECONDS", "timeout of each call (the library's)",
     [](O& o, Text n, Text v) { o.timeout = seconds(n, v); }},
    {'G', "cudagraph", "0", "CUDA only", for_gpus},
    {'C', "report_cputime", "0|1", "processor time of the process instead of time",
     [](O& o, Text n, Text v) { o.cpu_time = yes_or_no(n, v); }},
    {'S', "report_timestamps", "0|1", "print when each row was ready",
     [](O& o, Text n, Text v) { o.timestamps = yes_or_no(n, v); }},
    {'J', "output_file", "FILE.json", "write JSON too; an existing file is never overwritten",
     [](O& o, Text, Text v) { o.output_file = v; }},
    {'a', "average", "0..3", "time over the ranks: 0 rank 0, 1 mean, 2 min, 3 max (1)",
     [](O& o, Text n, Text v) { o.average = static_cast<Average>(whole(n, v, 0, 3)); }},
    {'R', "local_register", "0|1|2", "1, 2: buffers that all ranks see, of tutti::allocate (0)",
     [](O& o, Text n, Text v) { o.allocated = whole(n, v, 0, 2) > 0; }},
    {'x', "cta_policy", "0", "CUDA only", for_gpus},
    {'D', "device_implementation", "0", "CUDA only", for_gpus},
    {'V', "device_cta_count", "0", "CUDA only", for_gpus},
    {'M', "memory", "0|1", "print the memory used", [](O& o, Text n, Text v) { o.memory = yes_or_no(n, v); }},
    {'u', "unalign", "N", "elements before the first of each buffer (0)",
     [](O& o, Text n, Text v) { o.unalign = static_cast<std::size_t>(whole(n, v, 0, 1 << 20)); }},
    {'I', "per_iter_timing", "0|1", "four more columns per placement, from single calls",
     [](O& o, Text n, Text v) { o.per_iteration = yes_or_no(n, v); }},
    {'K', "per_iter_skip", "N", "leading iterations left out of them (0)",
     [](O& o, Text n, Text v) { o.skip = whole(n, v, 0); }},
};

constexpr Option options_ours[] = {
    {0, "algorithm", "NAME", "algorithm, e.g. ring, tree:4 (tutti plan --list)",
     [](O& o, Text, Text v) { o.algorithm = v; }},
    {0, "import", "FILE",
     "run this plan, from a file of plans or a program of MSCCL, proved first (docs/interchange.md)",
     [](O& o, Text, Text v) { o.import = v; }},
    {0, "transport", "LIST", "transports that ranks may use: shm,tcp  tcp  ^shm",
     [](O& o, Text, Text v) { o.transport = v; }},
    {0, "on", "WHERE", "buffers in memory of the host, or of a gpu: ranks of a host share its GPUs in turn (host)",
     [](O& o, Text n, Text v) {
       o.on_gpu = one_of<int>(n, v, {"host", "gpu"}) == 1;
     }},
    {0, "compare", "A,B,...", "algorithms side by side, interleaved, with the ratio to the best",
     [](O& o, Text, Text v) { o.compare = list(v); }},
    {0, "min-time", "SECONDS", "measure at least that long: more iterations than -n",
     [](O& o, Text n, Text v) { o.min_time = seconds(n, v); }},
    {0, "max-time", "SECONDS", "measure at most about that long: fewer iterations than -n",
     [](O& o, Text n, Text v) { o.max_time = seconds(n, v); }},
    {0, "format", "FORMAT", "table, short (for 80 columns), wide (adds min, p50, p95, p99), csv or json",
     [](O& o, Text n, Text v) {
       o.format = one_of<Format>(n, v, {"table", "short", "wide", "csv", "json"});
     }},
    {0, "sync", "HOW", "before each single call: barrier, none, or window (a common start time, one host)",
     [](O& o, Text n, Text v) {
       o.sync = one_of<Sync>(n, v, {"barrier", "none", "window"});
     }},
    {0, "deterministic", "0|1", "results are the left fold in rank order",
     [](O& o, Text n, Text v) { o.deterministic = yes_or_no(n, v); }},
    {0, "progress", "WHERE", "where to report progress: none, stderr or stdout (the one that is a terminal)",
     [](O& o, Text n, Text v) {
       o.progress = one_of<Progress>(n, v, {"none", "stderr", "stdout"});
     }},
};

constexpr Option options_comparing[] = {
    {0, "against", "A,B,...",
     "compare with openmpi, mpich, gloo, impi, openmpi5, mpich5, torch-gloo, and with --on gpu torch-gloo, nccl, "
     "torch-symm (all: those there), each at its best",
     [](O& o, Text, Text v) { o.rivals = list(v); }},
    {0, "repetitions", "N", "rows of each side at each point, in turn (5)",
     [](O& o, Text n, Text v) { o.repetitions = whole(n, v, 1, 1000); }},
    {0, "compute", "US", "each rank computes for that many microseconds before each call, back to back",
     [](O& o, Text n, Text v) { o.compute = whole(n, v, 1, 1'000'000); }},
    {0, "csv", "FILE", "keep the rows in FILE, and continue from those that it has",
     [](O& o, Text, Text v) { o.csv = v; }},
    {0, "svg", "FILE", "draw the times over the sizes; an existing file is never overwritten",
     [](O& o, Text, Text v) { o.svg = v; }},
    {0, "grid", "", "all collectives, ranks and sizes (or those given), then a summary",
     [](O& o, Text, Text) { o.grid = true; }},
    {0, "summary", "", "the summary of the rows in --csv, or of those that -g, -b, -e ... select, without measuring",
     [](O& o, Text, Text) { o.summary = o.grid = true; }},
    {0, "rivals-dir", "DIR", "where the programs of the system's libraries, tutti-rival-*, are (beside this one)",
     [](O& o, Text, Text v) { o.rivals_dir = v; }},
    {0, "peers-dir", "DIR", "where tools/peers/install put the other ones (../build-peers, seen from this program)",
     [](O& o, Text, Text v) { o.peers_dir = v; }},
};

std::string unified(std::string_view name) {
  std::string text{name};
  std::replace(text.begin(), text.end(), '_', '-');
  return text;
}

const Option& find_option(std::string_view word) {
  std::vector<const Option*> all;
  for (const Option& option : options_there) all.push_back(&option);
  for (const Option& option : options_ours) all.push_back(&option);
  for (const Option& option : options_comparing) all.push_back(&option);

  std::vector<std::string> names;
  std::vector<const Option*> fitting;
  for (const Option* option : all) {
    names.push_back("--" + unified(option->name));
    const bool is_letter = word.size() == 2 && word[1] != '-' && word[1] == option->letter;
    if (is_letter || names.back() == word) return *option;
    if (word.starts_with("--") && names.back().starts_with(word)) fitting.push_back(option);
  }
  if (fitting.size() == 1) return *fitting.front();
  if (fitting.size() > 1)
    wrong("bench", fmt::format("\"{}\" is ambiguous, e.g. --{} and --{}", word, unified(fitting[0]->name),
                               unified(fitting[1]->name)));
  const std::vector<std::string_view> views{names.begin(), names.end()};
  wrong("bench", fmt::format("no option \"{}\".{}", word, did_you_mean(word, views)));
}

/// Takes one option and its value from `words`; `at` then points behind them.
void take_option(Options& options, const std::vector<std::string>& words, std::size_t& at) {
  const std::string& word = words[at++];
  const bool long_name = word.starts_with("--");
  const std::size_t name_end = long_name ? word.find('=') : 2;
  const std::string name = long_name ? unified(word.substr(0, name_end)) : word.substr(0, 2);
  if (name == "-h" || name == "--help") {
    options.help = true;
    return;
  }
  const Option& option = find_option(name);
  options.given.push_back(unified(option.name));
  std::string value;
  if (option.value.empty()) {
    if (name_end < word.size()) wrong("bench", fmt::format("{} takes no value", name));
  } else if (name_end < word.size()) {
    value = word.substr(name_end + (long_name ? 1 : 0));
  } else if (at < words.size()) {
    value = words[at++];
  } else {
    wrong("bench", fmt::format("{} needs a value: {}", name, option.value));
  }
  if (!option.value.empty() && value.empty()) wrong("bench", fmt::format("{} needs a value, not an empty word", name));
  option.set(options, name, value);
}

/// All sizes of the grid, since nccl-tests' defaults would be one large size.
void widen_for_comparison(Options& o) {
  const auto was_given = [&](std::string_view name) {
    return std::find(o.given.begin(), o.given.end(), name) != o.given.end();
  };
  if (!was_given("minbytes")) o.min_bytes = std::min<std::size_t>(4, o.max_bytes);
  if (!was_given("maxbytes")) o.max_bytes = std::max(o.min_bytes, std::size_t{64} << 20);
}

void check_together(Options& o) {
  if (static_cast<std::int64_t>(o.threads) * o.gpus > most_ranks_of_job)
    wrong("bench", fmt::format("-t times -g is the number of ranks: at most {}, not {} times {}", most_ranks_of_job,
                               o.threads, o.gpus));
  if (o.is_comparison()) widen_for_comparison(o);
  if (o.min_bytes > o.max_bytes)
    wrong("bench", fmt::format("the first size, {}, is above the last, {} (-b, -e)", o.min_bytes, o.max_bytes));
  if (o.step_factor == 1 && o.step_bytes == 0 && o.min_bytes != o.max_bytes)
    wrong("bench", "steps of 0 bytes never end (-i, -f)");
  const int iterations = o.iterations.value_or(usual_iterations);
  if (o.skip >= iterations) wrong("bench", fmt::format("-K {} leaves none of {} iterations (-n)", o.skip, iterations));
  if (o.min_time > 0 && o.max_time > 0 && o.min_time > o.max_time) wrong("bench", "--min-time is above --max-time");
  if (o.compare.size() == 1) wrong("bench", "--compare needs two algorithms or more; for one give --algo");
  if (!o.compare.empty() && !o.algorithm.empty()) wrong("bench", "give either --algo or --compare");
  if (o.is_comparison() && !o.import.empty())
    wrong("bench", "--import does not go with other libraries: give --compare");
  if (o.summary && o.csv.empty()) wrong("bench", "--summary needs --csv FILE with the rows");
  if (o.compute > 0 && (o.rivals.empty() || o.grid || !o.csv.empty()))
    wrong("bench",
          "--compute needs --against, and cannot be combined with --grid or --csv, whose rows contain no computing");
  if (o.is_comparison() && o.format == Format::brief) wrong("bench", "--format short is not for --against and --grid");
  for (const std::string_view name : {"repetitions", "rivals-dir", "peers-dir"})
    if (!o.is_comparison() && std::find(o.given.begin(), o.given.end(), name) != o.given.end())
      wrong("bench", fmt::format("--{} goes with --against or --grid", name));
  if (!o.is_comparison() && !(o.csv.empty() && o.svg.empty()))
    wrong("bench", "--csv and --svg go with --against or --grid; for tables as CSV give --format csv");
  find_types(o.type);
  find_ops(o.op);
}

template <std::size_t size>
std::string describe(const Option (&options)[size]) {
  std::string text;
  for (const Option& option : options) {
    const std::string letter = option.letter != 0 ? fmt::format("-{},", option.letter) : "   ";
    text += fmt::format("  {} {:<34} {}\n", letter, fmt::format("--{} {}", option.name, option.value), option.meaning);
  }
  return text;
}

}  // namespace

std::size_t parse_size(const std::string& option, const std::string& text) {
  const std::optional<std::size_t> bytes = parse_bytes(text);
  if (!bytes) wrong("bench", fmt::format("{} takes a size such as 8, 64K, 32M or 1G, not \"{}\"", option, text));
  return *bytes;
}

std::string help_text() {
  std::vector<std::string_view> names;
  for (const MeasuredCall call : measured_calls()) names.push_back(name_of(call));
  return "Measures a collective between the ranks that a launcher started, or between -g ranks on this host.\n"
         "Usage: tutti bench COLLECTIVE [OPTIONS]       (or all_reduce_perf [OPTIONS] and so on)\n\n" +
         wrapped(fmt::format("COLLECTIVE: {}; or startup, waiting, memory: other costs of ranks (tutti bench startup "
                             "--help)\n",
                             fmt::join(names, " ")),
                 0) +
         "\nOptions of nccl-tests (each takes a value):\n" + describe(options_there) + "\nOptions of tutti:\n" +
         describe(options_ours) +
         "\nComparison with other libraries (docs/performance.md). These work as above: -g, -b, -e, -f, --transport\n"
         "shm, tcp or, within tools/hosts N --once, hosts:N. --min-time and --max-time are those of a point, -T that "
         "of one start of a library.\n" +
         describe(options_comparing) +
         "  -h, --help\n\n"
         "Examples:\n"
         "  tutti bench all_reduce -g 4 -b 8 -e 64M -f 4\n"
         "  tutti bench all_reduce -g 4 -b 8 -e 1M -f 8 --compare ring,tree,double_binary_tree\n"
         "  tutti bench all_reduce -g 2 --transport tcp --against openmpi,mpich,gloo\n"
         "  tutti bench --grid -g 2 --transport shm --against impi,openmpi5,mpich5 --csv rows.csv\n"
         "  tutti run -n 4 tutti bench broadcast -b 1M -e 1M --format wide\n"
         "  tutti bench kernels --help                 the kernels of reductions, on one core\n\n"
         "Exit codes: 0 good, 1 the system or tutti itself, 3 library, 4 timeout, 5 not supported, 6 wrong usage, 7 "
         "wrong\n"
         "data or an average bus bandwidth below 0.9 times TUTTI_TESTS_MIN_BW, 74 something could not be written.\n";
}

Options parse_options(int argc, const char* const* argv) {
  const std::string program = argv[0];
  const std::vector<std::string> words{argv + 1, argv + argc};
  Options options;
  std::vector<std::string> collectives;
  if (program != "bench") collectives.push_back(program);
  for (std::size_t at = 0; at < words.size();) {
    if (words[at].size() > 1 && words[at][0] == '-') {
      take_option(options, words, at);
    } else {
      collectives.push_back(words[at++]);
    }
  }
  if (options.help) return options;
  if (collectives.empty() && !options.grid)
    wrong("bench", "which collective? For example: tutti bench all_reduce -g 4");
  if (collectives.size() > 1) wrong("bench", fmt::format("one collective at a time, not also \"{}\"", collectives[1]));
  options.has_collective = !collectives.empty();
  if (options.has_collective) options.what = find_measured(collectives.front());
  check_together(options);
  return options;
}

}  // namespace tutti::cli::bench
