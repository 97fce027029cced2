// `tutti tune`: measures and writes a table, or judges one.

#include "cli/tune/tune.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "algorithms/select.h"
#include "cli/base/exit_codes.h"
#include "cli/base/input_file.h"
#include "cli/base/new_file.h"
#include "cli/base/output.h"
#include "cli/base/progress.h"
#include "cli/base/stop_request.h"
#include "cli/base/text.h"
#include "cli/tune/candidates.h"
#include "cli/tune/gpus.h"
#include "cli/tune/lines.h"
#include "cli/tune/options.h"
#include "cli/tune/regret.h"
#include "cli/tune/session.h"
#include "cli/tune/table.h"
#include "cli/tune/workers.h"
#include "lib/base/environment.h"
#include "lib/base/host.h"
#include "rendezvous/launchers.h"
#include "tutti/error.h"
#include "tutti/version.h"

namespace tutti::cli {
namespace {

std::vector<tune::Point> measured(const tune::Options& options) {
  const Progress progress;
  return tune::measure_all(options, [&](const std::string& text) { progress.show(text); });
}

void require_measured(bool any, const tune::Options& options) {
  if (!any)
    throw Error{ErrorCode::timeout,
                fmt::format("tune: {:g} s are too short to measure anything, and nothing was written; give --time more",
                            options.seconds)};
}

std::vector<tune::Curve> curves_of(const std::vector<tune::Point>& points) {
  std::vector<tune::Curve> curves;
  for (const tune::Point& point : points) {
    tune::Measured measured = tune::together(point.races);
    measured.bytes = point.bytes;
    measured.builtin = point.chosen;
    if (measured.rounds == 0) continue;  // the neighbouring sizes decide
    const Collective collective = point.call.collective;
    const bool goes_on = !curves.empty() && curves.back().collective == collective &&
                         curves.back().transport == point.transport && curves.back().ranks == point.ranks;
    if (!goes_on) curves.push_back({collective, point.transport, point.ranks, point.oversubscribed, {}});
    curves.back().points.push_back(std::move(measured));
  }
  const auto place = [](const tune::Curve& one) {
    return std::tuple{static_cast<int>(one.collective), one.transport, one.ranks};
  };
  std::stable_sort(curves.begin(), curves.end(),
                   [&](const tune::Curve& a, const tune::Curve& b) { return place(a) < place(b); });
  return curves;
}

std::vector<std::string> comments(const tune::Options& options) {
  const std::string gpus = options.on_gpu ? fmt::format(" and {}", options.gpus.text) : "";
  return {
      fmt::format("Measured by tutti {} tune on {} with {} cores{}; for connect()'s tuning_file or TUTTI_TUNING_FILE.",
                  TUTTI_VERSION, host_name(), available_cores(), gpus),
      "The first line that matches wins; calls without a line are decided by the built-in table.",
      "Give all ranks of a job the same table.", ""};
}

int write_new_table(const tune::Options& options) {
  tune::refuse_existing(options.output, options.force);
  require_folder("tune", options.output);
  const std::vector<tune::Curve> curves = curves_of(measured(options));
  require_measured(!curves.empty(), options);
  tune::write_table(options.output, tune::table_text(curves, comments(options)), options.force);
  fmt::print("{}", tune::changes_text(curves));
  fmt::print("# written: {}; export TUTTI_TUNING_FILE={}\n", options.output,
             std::filesystem::absolute(options.output).lexically_normal().string());
  return exit_success;
}

void write_csv(const std::string& path, const std::string& text) {
  const NewFile file = make_new_file(path);
  if (!file.descriptor || !write_all(file.descriptor.get(), text)) throw OutputError{"tune", file.path, errno};
  fmt::print("# every point: {}\n", file.path);
}

/// What of the table applies to the numbers of ranks that were asked for, on this machine. It is read before anything
/// is measured: what is wrong in it is told at once.
void print_lines(const tune::Options& options) {
  const auto table = algorithms::TuningTable::parse(read_input("tune", options.table), options.table);
  std::vector<tune::Place> places;
  for (const int ranks : options.ranks)
    for (const std::string& transport :
         options.on_gpu ? tune::kinds_of(options.transports, ranks, options.gpus) : options.transports)
      places.push_back({transport, ranks, !options.on_gpu && ranks > available_cores()});
  fmt::print("# calls here: {} ranks, {}, {}\n{}", fmt::join(options.ranks, ", "),
             options.on_gpu ? "memory of GPUs" : fmt::format("{}", fmt::join(options.transports, ", ")),
             plural(static_cast<std::size_t>(available_cores()), "core"),
             tune::lines_text(table, options.table, places));
  flush_output();
}

int check_table(const tune::Options& options) {
  require_folder("tune", options.csv);
  if (!options.table.empty()) print_lines(options);
  std::vector<tune::Regret> all;
  for (const tune::Point& point : measured(options)) {
    tune::Regret regret;
    regret.collective = measure::name_of(point.call);
    regret.transport = point.transport;
    regret.ranks = point.ranks;
    regret.bytes = point.bytes;
    regret.chosen = point.chosen;
    tune::judge(point.races, regret);
    all.push_back(std::move(regret));
  }
  require_measured(std::any_of(all.begin(), all.end(), [](const tune::Regret& one) { return one.rounds > 0; }),
                   options);
  fmt::print("# choices of {}\n{}", options.table.empty() ? "the built-in table" : options.table,
             tune::regret_text(all));
  if (!options.csv.empty()) write_csv(options.csv, tune::regret_csv(all));
  return exit_success;
}

}  // namespace

int tune_main(int argc, char** argv) {
  tune::Options options = tune::parse_options(argc, argv);
  if (options.help) return exit_success;
  const rendezvous::Launch launch = rendezvous::find_launch({}, variable, rendezvous::MeetFor::nothing);
  if (launch.size > 1)
    throw Error{ErrorCode::unsupported,
                fmt::format("tune: it starts ranks itself; run it without a launcher ({})", launch.source)};
  require_output("tune");
  if (options.on_gpu) options.gpus = tune::look_at_gpus();
  listen_for_stop();
  try {
    return options.check ? check_table(options) : write_new_table(options);
  } catch (const Error&) {
    if (!told_to_stop) throw;
    say_error("tutti: tune: stopped; nothing was written\n");
    return 128 + told_to_stop;
  }
}

}  // namespace tutti::cli
