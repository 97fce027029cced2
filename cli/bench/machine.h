#pragma once

#include <string>
#include <vector>

#include "cli/bench/control.h"

namespace tutti::cli::bench {

/// One rank, as nccl-tests' device list describes it.
struct Device {
  int rank = 0;
  int group = 0;
  int pid = 0;
  std::string host;
  int device = 0;  ///< place on its host
  std::string processor;
};

/// The facts that a reader needs to compare two runs. Meaningful on rank 0.
struct Machine {
  std::vector<Device> devices;
  int cores = 1;  ///< that this process may use
  double ranks_per_core = 1;
  bool pinned = false;
  std::string transport;   ///< how the ranks reach each other: "shm", "shm+tcp"
  std::string congestion;  ///< TCP congestion control
  std::string kernel;
  std::string instructions;  ///< that reductions use
  std::string version;
};

/// Collective over `world`, through `control`.
Machine look_around(Communicator& world, int group, Control& control);

/// "cores 2, ranks per core 2 (oversubscribed), not pinned, transport shm, ..." in one or two lines without "#".
std::vector<std::string> describe(const Machine& machine);

/// The name of this host's processor.
std::string processor_name();
/// Bytes of memory that this host, or the cgroups of this process, can still provide; 0: unknown.
std::size_t available_memory();
/// The memory that the cgroups in `membership`, the text of /proc/self/cgroup, still allow, for version 2 mounted at
/// `mounts` and version 1 below it; the largest number of the type if there is no limit.
std::size_t room_in_cgroups(const std::string& membership, const std::string& mounts);
/// Largest resident memory of this process so far.
std::size_t peak_memory();

/// The variables to record with a result, as "NAME=value": ours, NCCL's and Gloo's, and some of Slurm's, never a
/// secret.
std::vector<std::string> recorded_environment(const char* const* environ);

}  // namespace tutti::cli::bench
