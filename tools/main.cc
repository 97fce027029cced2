// The program `tutti`: finds the subcommand, and turns what escapes it into a message and an exit code.

#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/environment.h"
#include "lib/base/nearest.h"
#include "tools/bench.h"
#include "tools/blackbox.h"
#include "tools/doctor.h"
#include "tools/exit_codes.h"
#include "tools/learn.h"
#include "tools/plan.h"
#include "tools/run.h"
#include "tools/simulate.h"
#include "tools/store.h"
#include "tools/trace.h"
#include "tools/tune.h"
#include "tutti/error.h"
#include "tutti/version.h"

namespace tutti::tools {
namespace {

struct Subcommand {
  std::string_view name;
  int (*main)(int argc, char** argv);
  std::string_view meaning;
};

constexpr Subcommand subcommands[] = {
    {"run", run_main, "start ranks of a program and look after them"},
    {"bench", bench_main, "measure and check a collective, or compare its algorithms"},
    {"plan", plan_main, "show, prove and explain what each rank does"},
    {"simulate", simulate_main, "time plans on modelled networks, up to tens of thousands of ranks"},
    {"learn", learn_main, "ten short lessons: collectives drawn from the plans, and measured here"},
    {"tune", tune_main, "find out which algorithms are fastest here, and write the table to choose by"},
    {"blackbox", blackbox_main, "what ranks did last, and who is behind, also when they hang or were killed"},
    {"trace", trace_main, "what a run's trace says: predicted beside measured, and which rank or link was slow"},
    {"store", store_main, "serve a store where ranks meet, or speak to one"},
    {"doctor", doctor_main, "what works on this machine, what does not, and the remedy"},
};

void print_help(std::FILE* to) {
  fmt::print(to, "Collective communication between processes, without MPI.\nUsage: tutti SUBCOMMAND [...]\n\n");
  for (const Subcommand& one : subcommands) fmt::print(to, "  {:10}{}\n", one.name, one.meaning);
  fmt::print(to,
             "\n  --version, --help; each subcommand has its own --help\n\nExamples:\n"
             "  tutti run -n 4 ./prog                     four ranks on this host\n"
             "  tutti run -n 4 tutti bench all_reduce     measure, with nccl-tests' options and table\n"
             "  tutti plan all_reduce --algorithm ring    see what each rank does\n"
             "  tutti learn                               what the algorithms are, and why\n"
             "  tutti doctor                              when something does not work\n");
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
  if (word == "--version") {
    fmt::print("tutti {}\n", TUTTI_VERSION);
    return exit_success;
  }
  if (word != "doctor") check_environment(::environ);  // doctor tells, and lists what there is
  std::vector<std::string_view> names;
  for (const Subcommand& one : subcommands) {
    if (one.name == word) return one.main(argc - 1, argv + 1);
    names.push_back(one.name);
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("no subcommand \"{}\".{} (tutti --help)", word, did_you_mean(word, names)));
}

}  // namespace
}  // namespace tutti::tools

int main(int argc, char** argv) {
  try {
    return tutti::tools::dispatch(argc, argv);
  } catch (const tutti::Error& error) {
    fmt::print(stderr, "tutti: {}\n", error.what());
    return tutti::tools::exit_code_of(error.code());
  } catch (const std::exception& error) {
    fmt::print(stderr, "tutti: unexpected: {}\n", error.what());
    return tutti::tools::exit_internal;
  }
}
