// The program `tutti`: finds the subcommand, and turns exceptions into a message and an exit code.

#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "cli/base/exit_codes.h"
#include "cli/base/inherited_signals.h"
#include "cli/base/output.h"
#include "cli/bench/bench.h"
#include "cli/blackbox/blackbox.h"
#include "cli/doctor/doctor.h"
#include "cli/learn/learn.h"
#include "cli/plan/plan.h"
#include "cli/run/run.h"
#include "cli/simulate/simulate.h"
#include "cli/store/store.h"
#include "cli/trace/trace.h"
#include "cli/tune/tune.h"
#include "lib/base/environment.h"
#include "lib/base/suggest.h"
#include "tutti/error.h"
#include "tutti/version.h"

namespace tutti::cli {
namespace {

struct Subcommand {
  std::string_view name;
  int (*main)(int argc, char** argv);
  std::string_view meaning;
};

constexpr Subcommand subcommands[] = {
    {"run", run_main, "start the ranks of a program and watch them"},
    {"bench", bench_main, "measure and check a collective, or compare its algorithms"},
    {"plan", plan_main, "show, prove and explain what each rank does"},
    {"simulate", simulate_main, "time plans on modelled networks, up to tens of thousands of ranks"},
    {"learn", learn_main, "eleven short lessons: collectives drawn from the plans, and measured here"},
    {"tune", tune_main, "find out which algorithms are fastest here, and write a table of them"},
    {"blackbox", blackbox_main, "print what ranks did last and which is behind, even if they hang or were killed"},
    {"trace", trace_main, "summarise a run's trace: predicted beside measured times, and which rank or link was slow"},
    {"store", store_main, "serve a store in which ranks meet, or use one"},
    {"doctor", doctor_main, "check what works on this machine, with remedies for what does not"},
};

void print_help(std::FILE* to) {
  fmt::print(to, "Collective communication between processes, without MPI.\nUsage: tutti SUBCOMMAND [...]\n\n");
  for (const Subcommand& one : subcommands) fmt::print(to, "  {:10}{}\n", one.name, one.meaning);
  fmt::print(
      to,
      "\n  --version, --help; each subcommand has its own --help\n\nExamples:\n"
      "  tutti run -n 4 ./prog                     four ranks on this host\n"
      "  tutti run -n 4 tutti bench all_reduce     measure, with nccl-tests' options and table\n"
      "  tutti plan all_reduce --algorithm ring    see what each rank does\n"
      "  tutti learn                               what the algorithms are, and why\n"
      "  tutti doctor                              when something does not work\n"
      "\nExit codes of all subcommands, except those that `run` passes on from ranks: 0 good, 1 the system or tutti\n"
      "itself, 3 library, 4 timeout, 5 not supported, 6 wrong usage, 7 wrong data, 74 something could not be "
      "written.\n");
}

/// all_reduce_perf, alltoall_perf_mpi ...: `tutti bench` under the names that nccl-tests gives its programs.
bool is_perf_program(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  return name.ends_with("_perf") || name.ends_with("_perf_mpi");
}

int dispatch(int argc, char** argv) {
  if (is_perf_program(argv[0])) {
    check_environment(::environ);
    return bench_main(argc, argv);
  }
  const std::string_view word = argc > 1 ? argv[1] : "--help";
  if (word == "--help" || word == "-h" || word == "help") {
    print_help(argc > 1 ? stdout : stderr);
    return argc > 1 ? exit_success : exit_usage;
  }
  if (word == "--version" || word == "-V" || word == "version") {
    fmt::print("tutti {}\n", TUTTI_VERSION);
    return exit_success;
  }
  if (word != "doctor") check_environment(::environ);  // doctor reports errors itself, and lists the variables
  std::vector<std::string_view> names;
  for (const Subcommand& one : subcommands) {
    if (one.name == word) return one.main(argc - 1, argv + 1);
    names.push_back(one.name);
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("no subcommand \"{}\".{} (tutti --help)", word, did_you_mean(word, names)));
}

int guarded(int argc, char** argv) {
  try {
    return dispatch(argc, argv);
  } catch (const OutputError& error) {
    say_error(fmt::format("tutti: {}\n", error.what()));
    return exit_output;
  } catch (const Error& error) {
    say_error(fmt::format("tutti: {}\n", error.what()));
    return exit_code_of(error.code());
  } catch (const std::exception& error) {
    const auto* const failed = dynamic_cast<const std::system_error*>(&error);
    if (failed != nullptr && std::ferror(stdout) != 0) {  // fmt::print() could not write
      say_error(fmt::format("tutti: {}\n", OutputError{"", "standard output", failed->code().value()}.what()));
      return exit_output;
    }
    say_error(fmt::format("tutti: unexpected: {}\n", error.what()));
    return exit_internal;
  }
}

}  // namespace
}  // namespace tutti::cli

int main(int argc, char** argv) {
  tutti::cli::settle_signals();
  tutti::cli::hold_standard_descriptors();
  return tutti::cli::end_output(tutti::cli::guarded(argc, argv));
}
