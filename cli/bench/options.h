#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cli/bench/names.h"

namespace tutti::cli::bench {

enum class Format { table, brief, wide, csv, json };
/// What all ranks do before each timed call of the series.
enum class Sync { barrier, none, window };
/// Where the progress line goes. If results go to the same terminal, it must use the same stream, so that it never
/// overwrites one of them.
enum class Progress { none, on_stderr, on_stdout };
/// How the time column combines the ranks (-a).
enum class Average { rank0, mean, least, most };

/// Used if the command line does not say otherwise. The first calls of a job or of a size are several times slower than
/// the others: pages are touched for the first time, and links find out how to copy. And a loop of 20 calls of 0.3 us
/// takes no longer than one interrupt.
constexpr int usual_iterations = 20;
constexpr int most_iterations = 1'000'000;
constexpr double usual_seconds = 2e-3;
constexpr int usual_warmup = 50;
constexpr double usual_warmup_seconds = 20e-3;

/// The command line. Letters, names and defaults of the first part are those of nccl-tests; the rest is ours and has no
/// letters.
struct Options {
  MeasuredCall what = Collective::all_reduce;
  bool help = false;

  int threads = 1;  ///< -t, and
  int gpus = 1;     ///< -g: their product is the number of ranks to start
  std::size_t min_bytes = std::size_t{32} << 20;
  std::size_t max_bytes = std::size_t{32} << 20;
  std::size_t step_bytes = std::size_t{1} << 20;
  std::size_t step_factor = 1;
  std::optional<int> iterations;  ///< -n; not given: 20, or more that take `usual_seconds`
  std::optional<int> warmup;      ///< -w; not given: `usual_warmup`, or fewer that take `usual_warmup_seconds`
  int aggregate = 1;              ///< calls per iteration
  int cycles = 1;                 ///< 0: without end
  int check = 1;                  ///< repetitions that are verified
  std::string op = "sum";
  std::string type = "float";
  std::string root = "0";
  Average average = Average::mean;
  int blocking = 0;
  bool per_iteration = false;
  int skip = 0;  ///< leading iterations left out of the statistics
  double timeout = 0;
  bool cpu_time = false;
  bool timestamps = false;
  bool memory = false;
  std::size_t unalign = 0;  ///< elements before the first of each buffer
  bool allocated = false;   ///< buffers of tutti::allocate()
  bool on_gpu = false;      ///< buffers in the memory of a GPU
  std::string output_file;
  bool has_collective = false;
  std::vector<std::string> given;  ///< long names, with '-', of the given options

  std::string algorithm;
  std::string import;  ///< a file of plans or a program of MSCCL, to run under its name
  std::string transport;
  std::vector<std::string> compare;
  double min_time = 0;  ///< seconds per measurement; 0: -n alone decides
  double max_time = 0;
  Format format = Format::table;
  Sync sync = Sync::barrier;
  bool deterministic = false;
  Progress progress = Progress::none;

  std::vector<std::string> rivals;  ///< other libraries to compare with
  bool grid = false;
  bool summary = false;
  int repetitions = 5;  ///< rows of each side at each point
  double compute = 0;   ///< microseconds of a core that each rank computes before each call
  std::string csv;      ///< file of the rows
  std::string svg;
  std::string rivals_dir;
  std::string peers_dir;

  bool is_comparison() const { return !rivals.empty() || grid || summary; }
  int ranks() const { return threads * gpus; }
  /// True if the loop must be timed; --format short shows single calls only.
  bool wants_loop() const { return format != Format::brief; }
  /// True if single calls must be timed, not only the loop.
  bool wants_series() const {
    return per_iteration || format != Format::table || !output_file.empty() || !compare.empty();
  }
};

/// argv[0] names the program (see bench_main). Throws Error{invalid_argument} or {unsupported}.
Options parse_options(int argc, const char* const* argv);
std::string help_text();

/// "8", "1.5K", "32M", "1G": binary units.
std::size_t parse_size(const std::string& option, const std::string& text);

}  // namespace tutti::cli::bench
