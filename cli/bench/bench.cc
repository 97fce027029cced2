// `tutti bench`: parses the command line, and either starts the requested ranks or, as one of them, joins the others
// and runs.

#include "cli/bench/bench.h"

#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "algorithms/catalogue.h"
#include "cli/base/exit_codes.h"
#include "cli/base/output.h"
#include "cli/base/own_path.h"
#include "cli/base/process_limits.h"
#include "cli/bench/compare_libraries/compare_libraries.h"
#include "cli/bench/footprint.h"
#include "cli/bench/import.h"
#include "cli/bench/kernels/bench.h"
#include "cli/bench/options.h"
#include "cli/bench/session.h"
#include "cli/run/run.h"
#include "lib/api/settings.h"
#include "lib/base/collective_traits.h"
#include "lib/base/environment.h"
#include "lib/compute/kernels.h"
#include "rendezvous/launchers.h"
#include "tutti/communicator.h"
#include "tutti/error.h"

namespace tutti::cli {
namespace {

/// The imported plan, if any; it is the one that runs unless the command line says otherwise.
std::optional<bench::ImportedPlan> import_plan(bench::Options& options, int ranks) {
  if (options.import.empty()) return std::nullopt;
  std::optional<bench::ImportedPlan> plan{options};
  if (plan->ranks() != ranks)
    throw Error{ErrorCode::invalid_argument, fmt::format("bench: {} is a plan for {} ranks, not {} (-g {})",
                                                         options.import, plan->ranks(), ranks, plan->ranks())};
  if (options.algorithm.empty() && options.compare.empty()) options.algorithm = plan->name();
  return plan;
}

/// Errors that can be found before any rank starts.
void check_before_start(const bench::Options& options, const std::string& imported) {
  bench::wanted_bandwidth();
  if (!options.transport.empty() && !options.is_comparison())
    settings::transports(options.transport, "bench: --transport");
  std::vector<std::string> names = options.compare;
  if (!options.algorithm.empty()) names.push_back(options.algorithm);
  for (const std::string& name : names) {
    if (name == "auto" || name == imported) continue;
    if (options.what == measure::send_recv)
      throw Error{ErrorCode::unsupported, "bench: sendrecv is not a collective and has no algorithms to choose from"};
    algorithms::find(options.what.collective, name);
  }
  if (!bench::has_op(options.what) || options.op == "all") return;
  const Collective collective = options.what.collective;
  if (!detail::traits_of(collective).takes(bench::find_ops(options.op).front().op))
    throw Error{ErrorCode::invalid_argument,
                fmt::format("bench: {} has no {}, which is over all ranks", name_of(collective), options.op)};
  if (options.type == "all") return;
  compute::require(bench::find_types(options.type).front().type, Op{bench::find_ops(options.op).front().op});
}

/// Results must not be lost because they cannot be written.
void require_places(const bench::Options& options) {
  require_output("bench");
  for (const std::string& file : {options.output_file, options.svg, options.csv}) require_folder("bench", file);
}

/// Starts this program once per rank. Each rank is bound to its share of the cores, even if ranks outnumber cores. If
/// they were free, the kernel would leave them on the cores on which they first woke, which differ from run to run (4
/// ranks on 2 cores, broadcast of 4 B: 0.17 us with two ranks on each core, 0.25 with three on one).
int start_ranks(const bench::Options& options, int argc, char** argv) {
  Job job;
  job.command = {own_path(), "bench"};
  if (std::string_view{argv[0]} != "bench") job.command.emplace_back(argv[0]);
  job.command.insert(job.command.end(), argv + 1, argv + argc);
  if (::isatty(STDERR_FILENO) != 0) {
    const char* const where = ::isatty(STDOUT_FILENO) != 0 ? "stdout" : "stderr";
    job.command.insert(job.command.begin() + 2, {"--progress", where});
  }
  job.ranks_here = options.ranks();
  job.binding = Binding::core;
  job.label = Label::never;
  RankNeeds each = needs_of(job);
  each.processes = 1 + threads_of_rank;
  require_room_for("bench", job.ranks_here, each);
  return run_job(job);
}

int run_rank(const bench::Options& options, const rendezvous::Launch& launch, const std::string& plan_file, int argc,
             char** argv) {
  if (options.ranks() != 1 && options.ranks() != launch.size)
    throw Error{
        ErrorCode::unsupported,
        fmt::format("bench: under a launcher ({}) each process is one rank; leave out -t and -g", launch.source)};
  ConnectOptions connecting;
  if (launch.size == 1) connecting.rank = 0, connecting.size = 1;  // alone, also where variables name a place to meet
  connecting.deterministic = options.deterministic;
  connecting.transport = options.transport;
  connecting.plan_file = plan_file;
  bench::Session session{options, connect(connecting), {argv, argv + argc}};
  return session.run();
}

}  // namespace

int bench_main(int argc, char** argv) {
  if (argc > 1 && std::string_view{argv[1]} == "kernels") return kernel_bench_main(argc - 1, argv + 1);
  if (argc > 1 && bench::is_footprint(argv[1])) return bench::footprint_main(argc - 1, argv + 1);
  bench::Options options = bench::parse_options(argc, argv);
  if (options.help) {
    print_text(bench::help_text());
    return exit_success;
  }
  const rendezvous::Launch launch = rendezvous::find_launch({}, variable, rendezvous::MeetFor::nothing);
  const bool alone = launch.size == 1 && launch.rendezvous.empty();
  const auto imported = import_plan(options, alone ? options.ranks() : launch.size);
  check_before_start(options, imported ? imported->name() : "");
  if (alone) require_places(options);
  if (options.is_comparison()) {
    if (!alone)
      throw Error{
          ErrorCode::unsupported,
          fmt::format("bench: a comparison starts the ranks of all sides itself; run it without a launcher ({})",
                      launch.source)};
    return versus::versus_main(options, {argv, argv + argc});
  }
  if (alone && options.ranks() > 1) {
    if (!variable("NCCL_TESTS_SPLIT")) bench::check_root(options, options.ranks());
    return start_ranks(options, argc, argv);
  }
  return run_rank(options, launch, imported ? imported->path() : "", argc,
                  argv);  // every rank reports: the first to fail ends the others, even if it does not print
}

}  // namespace tutti::cli
