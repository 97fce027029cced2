#include "cli/bench/session.h"

#include <errno.h>
#include <fmt/core.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "cli/base/exit_codes.h"
#include "cli/base/new_file.h"
#include "cli/base/output.h"
#include "cli/base/progress.h"
#include "cli/bench/short.h"
#include "lib/base/collective_traits.h"
#include "lib/base/environment.h"
#include "lib/compute/kernels.h"
#include "tutti/error.h"

namespace tutti::cli::bench {
namespace {

constexpr std::size_t largest_element = 16;

/// Rounded up, since 0 would mean the library's default.
std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds{static_cast<std::int64_t>(std::ceil(seconds * 1000))};
}

/// The algorithm for the library: "auto" leaves the choice to it.
std::string asked_for(const std::string& name) { return name == "auto" ? "" : name; }

}  // namespace

std::optional<double> wanted_bandwidth() {
  for (const char* name : {"TUTTI_TESTS_MIN_BW", "NCCL_TESTS_MIN_BW"}) {
    const std::optional<std::string> text = variable(name);
    if (!text) continue;
    char* end = nullptr;
    const double value = std::strtod(text->c_str(), &end);
    if (*end != '\0' || !(value >= 0))
      throw Error{ErrorCode::invalid_argument, fmt::format("bench: {}={} is not a bandwidth in GB/s", name, *text)};
    return value;
  }
  return {};
}

void check_root(const Options& options, int ranks) {
  if (!has_root(options.what) || options.root == "all") return;
  if (std::atoi(options.root.c_str()) >= ranks)
    throw Error{ErrorCode::invalid_argument,
                fmt::format("bench: root {} is not one of {} ranks (-r)", options.root, ranks)};
}

Session::Session(const Options& options, Communicator world, std::vector<std::string> arguments)
    : options_(options),
      arguments_(std::move(arguments)),
      world_(std::move(world)),
      control_(world_, milliseconds(options.timeout)) {
  if (const auto split = variable("NCCL_TESTS_SPLIT")) {
    colour_ = split_colour(*split, world_.rank());
    group_.emplace(world_.split(colour_));
  }
  outcome_.least_bandwidth = wanted_bandwidth();
}

int Session::run() {
  if (options_.sync == Sync::window && !control_.one_host())
    throw Error{ErrorCode::unsupported, "bench: --sync window needs one clock, and these ranks are on several hosts"};
  limit_to_memory();
  machine_ = look_around(world_, colour_, control_);
  open_output_file();
  try {
    announce();
    run_tables();
  } catch (const std::exception& error) {
    if (json_file_) write_file({error.what()});
    throw;
  }
  conclude();
  int code = exit_success;
  if (outcome_.wrong_placements > 0 || outcome_.too_slow()) code = exit_wrong_data;
  return static_cast<int>(control_.from_first(code));
}

/// Two buffers on each rank of this host must fit into memory; nccl-tests lowers the last size in the same way.
void Session::limit_to_memory() {
  const auto ranks = static_cast<double>(world_.local_size());
  const double room = control_.from_first(static_cast<double>(available_memory()) * 0.8 / 2 / ranks);
  if (room > 0 && static_cast<double>(options_.max_bytes) > room) {
    options_.max_bytes = static_cast<std::size_t>(room);
    say(fmt::format("# Reducing maxBytes to {} due to memory limitation\n", options_.max_bytes), false);
  }
  if (options_.max_bytes < options_.min_bytes && options_.what != Collective::barrier)
    throw Error{ErrorCode::invalid_argument,
                fmt::format("bench: {} ranks with two buffers each leave room for {} bytes, less than the first size, "
                            "{} (-b); take smaller sizes or fewer ranks",
                            world_.local_size(), options_.max_bytes, options_.min_bytes)};
  const std::size_t bytes = options_.max_bytes + options_.unalign * largest_element;
  if (options_.allocated) {
    buffers_.emplace(bytes, comm());
  } else {
    buffers_.emplace(bytes);
  }
  if (options_.on_gpu) buffers_->put_on_gpu(world_.local_rank());
}

void Session::open_output_file() {
  if (!first()) return;
  const bool needed = !options_.output_file.empty() || options_.format == Format::json;
  if (needed) json_.emplace(options_, machine_, arguments_, recorded_environment(::environ));
  if (options_.output_file.empty()) return;
  NewFile file = make_new_file(options_.output_file);
  if (!file.descriptor) throw OutputError{"bench", file.path, errno};
  json_file_ = std::move(file.descriptor);
  say(fmt::format("# Writing JSON output to {}\n", file.path), false);
  struct stat info;
  if (::fstat(json_file_.get(), &info) == 0 && S_ISREG(info.st_mode))   // text written to a pipe cannot be overwritten
    write_file({"the run was ended from outside before it was over"});  // remains if that happens
}

void Session::announce() {
  if (!first()) return;
  if (options_.format == Format::brief) return say(short_heading(options_, machine_), true);
  say(preamble(options_, machine_), false);
  if (options_.format == Format::json) return;
  const bool csv = options_.format == Format::csv;
  if (options_.compare.empty()) {
    say(csv ? csv_header() : table_header(options_), true);
  } else {
    say(csv ? compare_csv_header() : compare_header(options_.compare), true);
  }
}

/// All groups have the same rows, since they are measured side by side.
int Session::ranks_of_smallest_group() {
  const std::vector<double> sizes = control_.gather(comm().size());
  return static_cast<int>(control_.from_first(first() ? *std::min_element(sizes.begin(), sizes.end()) : 0));
}

void Session::run_tables() {
  std::vector<NamedOp> ops{{"none", OpKind::sum}};
  if (has_op(options_.what)) ops = find_ops(options_.op);
  std::vector<int> roots{0};
  const int ranks = has_root(options_.what) ? ranks_of_smallest_group() : 0;
  if (has_root(options_.what) && options_.root == "all") {
    for (int root = 1; root < ranks; ++root) roots.push_back(root);
  } else if (has_root(options_.what)) {
    check_root(options_, ranks);
    roots.front() = std::atoi(options_.root.c_str());
  }
  for (int cycle = 0; options_.cycles == 0 || cycle < options_.cycles; ++cycle)
    for (const NamedOp& op : ops)
      for (const NamedType& type : find_types(options_.type))
        for (const int root : roots) run_rows(type, op, root);
}

void Session::run_rows(const NamedType& type, const NamedOp& op, int root) {
  const bool takes = options_.what.traits().takes(op.op);
  if (has_op(options_.what) && (!takes || !compute::supports(type.type, op.op))) {
    if (options_.op != "all" && options_.type != "all") compute::require(type.type, Op{op.op});
    return say(fmt::format("# {} of {} has no meaning here, left out\n", op.name, type.name), false);
  }
  for (const std::size_t bytes : sizes_of(options_)) {
    const Row row = make_row(bytes, type, op, root);
    if (options_.compare.empty()) {
      run_row(row);
    } else {
      compare_row(row);
    }
  }
}

Row Session::make_row(std::size_t bytes, const NamedType& type, const NamedOp& op, int root) {
  Row row{options_.what,   type, op, root, {}, asked_for(options_.algorithm), milliseconds(options_.timeout),
          options_.unalign};
  row.shape = shape_of(options_.what, bytes, row.element(), comm().rank(), comm().size());
  return row;
}

RowResult Session::describe(const Case& work, const std::string& algorithm) {
  const Row& row = work.row();
  RowResult result;
  result.bytes = row.bytes();
  result.count = row.shape.count;
  result.type = row.type.name;
  result.op = row.op.name;
  result.root = has_root(row.what) ? row.root : -1;
  result.algorithm = algorithm.empty() ? work.chosen_algorithm() : algorithm;
  return result;
}

/// A wrong plan would hang until the deadline, or give wrong results. Rank 0 proves it for all.
void Session::prove(const Row& row, const std::string& algorithm) {
  if (row.what == measure::send_recv) return;
  std::string problem;
  if (first()) try {
      const algorithms::Choice choice = algorithms::find(row.what.collective, algorithm);
      proofs_.require(algorithms::settled(choice, comm().size(), row.bytes()), comm().size(), row.root);
    } catch (const Error& error) {
      // A plan from a file is not in the catalogue; it was proved when the rank connected.
      if (error.code() == ErrorCode::unsupported) problem = error.what();
    }
  if (control_.from_first(problem.empty() ? 0 : 1) == 0) return;
  throw Error{ErrorCode::unsupported, "bench: " + (first() ? problem : "rank 0 found a wrong plan; see its error")};
}

void Session::run_row(const Row& row) {
  Case work{comm(), *buffers_, row};
  show_progress(fmt::format("{} bytes", row.bytes()));
  RowResult result = describe(work, row.algorithm);
  prove(row, result.algorithm);
  result.out_of_place = measure(work, Placement::out_of_place, options_, control_);
  if (has_in_place(row.what)) result.in_place = measure(work, Placement::in_place, options_, control_);
  if (row.algorithm.empty()) result.algorithm = work.chosen_algorithm();  // on a GPU the first call decides
  result.ready = local_time();
  if (first()) report(result);
}

void Session::report(const RowResult& row) {
  outcome_.add(row);
  if (json_) json_->add(row);
  show_progress("");
  if (options_.format == Format::json) return;
  if (options_.format == Format::brief) return say(short_row(row), true);
  say(options_.format == Format::csv ? csv_rows(row, options_) : table_row(row, options_), true);
}

/// A B C, then C B A, and so on, a few iterations each time.
void Session::compare_row(const Row& row) {
  constexpr int least_rounds = 4;
  Case work{comm(), *buffers_, row};
  Comparison comparison{row.bytes(),
                        row.shape.count,
                        std::string{row.type.name},
                        std::string{row.op.name},
                        has_root(row.what) ? row.root : -1,
                        {},
                        0,
                        work.chosen_algorithm()};
  double expected = 0;
  for (const std::string& name : options_.compare) {
    prove(row, asked_for(name).empty() ? comparison.chosen : name);
    work.use_algorithm(asked_for(name));
    work.prepare(Placement::out_of_place, 0);
    expected = std::max(expected, warm_up(work, Placement::out_of_place, options_, control_));
    std::int64_t wrong = options_.check > 0 ? 0 : -1;
    for (int repetition = 1; repetition <= options_.check; ++repetition)
      wrong += verify(work, Placement::out_of_place, repetition, control_);
    comparison.contenders.push_back({name, {}, wrong, 0, {}, {}});
  }
  const int iterations = iterations_for(options_, expected * options_.aggregate);
  const int rounds = std::min(iterations, std::max(least_rounds, iterations / 10 * 2));
  std::vector<Series> series(options_.compare.size());
  int wanted = iterations;  // fewer where single calls, each with a meeting before it, take longer than the warm-up
  for (int round = 0, made = 0; made < wanted; ++round) {
    const int share = iterations / rounds + (round < iterations % rounds ? 1 : 0);
    for (std::size_t i = 0; i < series.size(); ++i) {
      const std::size_t which = round % 2 == 0 ? i : series.size() - 1 - i;
      show_progress(fmt::format("{} bytes: round {}, {}", row.bytes(), round + 1, options_.compare[which]));
      work.use_algorithm(asked_for(options_.compare[which]));
      extend_series(work, Placement::out_of_place, share, options_, control_, series[which]);
    }
    made += share;
    const double longest = std::ranges::max_element(series, {}, &Series::seconds)->seconds;
    wanted = single_calls_for(options_, iterations, made, control_.from_first(longest));
  }
  comparison.chosen = work.chosen_algorithm();  // on a GPU the first call decides
  if (!first()) return;
  for (std::size_t i = 0; i < series.size(); ++i) comparison.contenders[i].times = counted(series[i], options_);
  comparison.settle(row.what, comm().size());
  for (std::size_t i = 0; i < series.size(); ++i) {
    const Contender& one = comparison.contenders[i];
    RowResult result = describe(work, asked_for(one.algorithm));
    result.experiment = one.algorithm;
    result.out_of_place = {one.median, one.bandwidth, one.wrong, static_cast<int>(series[i].slowest.size()), series[i]};
    outcome_.add(result);
    if (json_) json_->add(result);
  }
  show_progress("");
  if (options_.format == Format::brief)
    say(short_comparison(comparison), true);
  else if (options_.format != Format::json)
    say(options_.format == Format::csv ? compare_csv_rows(comparison) : bench::compare_row(comparison), true);
  comparisons_.push_back(std::move(comparison));
}

void Session::conclude() {
  if (!first()) return;
  const bool brief = options_.format == Format::brief;
  if (!comparisons_.empty()) {
    std::vector<std::string> sentences = closing_sentences(comparisons_);
    if (const std::string choice = sentence_of_choice(comparisons_); !choice.empty()) sentences.push_back(choice);
    if (json_) json_->conclude(sentences);
    if (!brief) say("#\n# ratio: p50 over that of the best; \"?\" if its 95 % interval contains 1\n", false);
    for (const std::string& sentence : sentences) say(brief ? short_sentence(sentence) : "# " + sentence + "\n", false);
  }
  say(brief ? short_footer(outcome_, options_) : table_footer(outcome_, options_), false);
  if (options_.memory) say(fmt::format("# {:<20} : {} MiB\n", "Peak memory, rank 0", peak_memory() >> 20), false);
  if (options_.format == Format::json) say(json_->finish(outcome_, {}), true);
  if (json_file_) write_file({});
}

/// Overwrites the previous contents of the file.
void Session::write_file(const std::vector<std::string>& errors) {
  const std::string document = json_->finish(outcome_, errors);
  const int file = json_file_.get();
  ::lseek(file, 0, SEEK_SET);
  if (!write_all(file, document)) throw OutputError{"bench", options_.output_file, errno};
  [[maybe_unused]] const int shortened = ::ftruncate(file, static_cast<off_t>(document.size()));  // fails for a pipe
}

/// Comments go to stderr if a program reads stdout.
void Session::say(const std::string& text, bool result) {
  if (!first()) return;
  const bool for_programs = options_.format == Format::csv || options_.format == Format::json;
  if (for_programs && !result) return say_error(text);
  print_text(text);
  flush_output();
}

void Session::show_progress(const std::string& text) {
  if (!first() || options_.progress == Progress::none) return;
  write_over(options_.progress == Progress::on_stdout ? stdout : stderr, text);
}

}  // namespace tutti::cli::bench
