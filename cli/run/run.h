#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "cli/base/process_limits.h"

namespace tutti::cli {

enum class Label { when_several, never, always };
enum class Binding { when_it_fits, none, core };
/// A rank's share of the cores: neighbouring cores, or a core with neighbouring ranks (block); or dealt out in turn
/// (cyclic).
enum class Mapping { block, cyclic };

/// A program and how its ranks are started: on this host, or as this host's part of several.
///
/// Ranks of one node are consecutive: node k starts ranks k * ranks_here ... (k + 1) * ranks_here - 1.
struct Job {
  std::vector<std::string> command;  ///< program and arguments; the program is searched for in PATH
  int ranks_here = 1;
  std::vector<std::pair<std::string, std::string>> exported;  ///< set for every rank, beside the caller's environment

  std::string inject;  ///< TUTTI_INJECT of all ranks, in the first attempt only

  std::string trace;  ///< trace file, see docs/tracing.md; empty: TUTTI_TRACE_FILE decides

  Label label = Label::when_several;           ///< precede each line of output with "[rank] "
  std::string log_dir;                         ///< also write the output of rank r to <log_dir>/rank-r.log
  Binding binding = Binding::when_it_fits;     ///< pin each rank to its share of the cores
  Mapping mapping = Mapping::block;            ///< which cores are its share
  std::chrono::milliseconds timeout{0};        ///< of the whole job; 0: none
  std::chrono::milliseconds kill_grace{2000};  ///< between SIGTERM and SIGKILL
  int max_restarts = 0;                        ///< how often all ranks are started again after one has failed
  int max_lost = 0;                            ///< how many ranks may fail while the others go on

  int nodes = 1;
  int node = 0;
  std::string host;  ///< node 0's address, several nodes only
  int port = 0;      ///< of the store on node 0; 0: chosen by the kernel (one node only)
  std::string id;    ///< separates jobs; empty: generated

  std::string secret_file;  ///< with the job's secret; empty: from the environment, or random (one node only)
  bool insecure = false;    ///< allow a store without a secret
  bool tls = false;         ///< encrypt what goes over TCP (TUTTI_TLS)

  int ranks() const { return nodes * ranks_here; }
  int first_rank() const { return node * ranks_here; }
};

/// Resources of a rank of the job that every program needs.
RankNeeds needs_of(const Job& job);

/// Exit codes of `run_job` that do not come from a rank.
inline constexpr int exit_job_timeout = 124;
inline constexpr int exit_cannot_execute = 126;
inline constexpr int exit_not_found = 127;

/// Starts the ranks with a store served inside this process, forwards their output, and returns when all have ended.
/// Call it from the main thread, since it waits for signals and children. Nothing that the ranks started is left
/// behind.
///
/// Returns 0, or the code of the first rank that failed (128 + signal if one killed it) after ending the others. It
/// returns 128 + signal if this process was told to stop, and exit_output if the ranks' output could not be written.
///
/// While restarts are left, a failed rank only ends an attempt: all ranks of all nodes are ended and started again. Up
/// to `max_lost` failed ranks do not even end the attempt: the others go on without them (Communicator::shrink()), and
/// the job succeeds if they do. Throws Error for errors that are found before the start.
int run_job(const Job& job);

/// `tutti run`.
int run_main(int argc, char** argv);

}  // namespace tutti::cli
