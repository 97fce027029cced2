#include "cli/bench/machine.h"

#include <fmt/core.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>

#include "lib/base/environment.h"
#include "lib/base/host.h"
#include "lib/base/quota.h"
#include "lib/compute/kernels.h"
#include "tutti/version.h"

namespace tutti::cli::bench {
namespace {

std::string first_line(const char* path) {
  std::ifstream file{path};
  std::string line;
  std::getline(file, line);
  return line;
}

/// The text after the colon in the first line of `path` that begins with `key`.
std::string field(const char* path, std::string_view key) {
  std::ifstream file{path};
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t begin = line.find_first_not_of(" \t", line.find(':') + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

/// This process may use fewer processors than the machine has on line.
bool is_pinned() {
  cpu_set_t allowed;
  return ::sched_getaffinity(0, sizeof allowed, &allowed) == 0 && CPU_COUNT(&allowed) < ::sysconf(_SC_NPROCESSORS_ONLN);
}

std::string kernel_release() {
  utsname name{};
  return ::uname(&name) == 0 ? fmt::format("{} {}", name.sysname, name.release) : "unknown";
}

/// The memory that the cgroup in `folder` still allows. Cached files do not count as used, since they are dropped when
/// needed.
std::size_t room_in_cgroup(const std::string& folder, bool old) {
  constexpr std::size_t no_limit = std::numeric_limits<std::size_t>::max();
  std::size_t limit = 0;
  std::size_t used = 0;
  std::ifstream limit_file{folder + (old ? "memory.limit_in_bytes" : "memory.max")};
  std::ifstream used_file{folder + (old ? "memory.usage_in_bytes" : "memory.current")};
  if (!(limit_file >> limit) || !(used_file >> used)) return no_limit;  // "max"
  std::ifstream statistics{folder + "memory.stat"};
  std::string name;
  for (std::size_t value = 0; statistics >> name >> value;)
    if (name == "inactive_file" || name == "active_file") used -= std::min(used, value);
  return limit - std::min(limit, used);
}

/// "shm+tcp".
std::string sum_of(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : "+") + name;
  return text;
}

std::string transports(Communicator& world) {
  std::set<std::string> names;
  for (int peer = 0; peer < world.size(); ++peer)
    if (peer != world.rank()) names.insert(world.transport_to(peer));
  return names.empty() ? "self" : sum_of(names);
}

/// A rank's description of itself. The processor's name, which may contain any character, comes last.
std::string to_text(const Device& device, const std::string& transport) {
  return fmt::format("{} {} {} {} {} {} {}", device.rank, device.group, device.pid, device.device, transport,
                     device.host.empty() ? "?" : device.host, device.processor);
}

Device from_text(const std::string& text, std::set<std::string>& transports_seen) {
  std::istringstream words{text};
  Device device;
  std::string transport;
  words >> device.rank >> device.group >> device.pid >> device.device >> transport >> device.host >> std::ws;
  std::getline(words, device.processor);
  std::stringstream parts{transport};
  for (std::string part; std::getline(parts, part, '+');) transports_seen.insert(part);
  return device;
}

}  // namespace

Machine look_around(Communicator& world, int group, Control& control) {
  Device me{world.rank(), group, ::getpid(), host_name(), world.local_rank(), processor_name()};
  const std::vector<std::string> texts = control.gather_text(to_text(me, transports(world)));
  Machine machine;
  std::set<std::string> seen;
  for (const std::string& text : texts) machine.devices.push_back(from_text(text, seen));
  if (seen.size() > 1) seen.erase("self");
  machine.transport = sum_of(seen);
  machine.cores = cores_together(control.gather_text(allowed_cores()), quota_cores());
  machine.ranks_per_core = static_cast<double>(world.local_size()) / machine.cores;
  machine.pinned = is_pinned();
  machine.congestion = variable("TUTTI_CONGESTION").value_or(first_line("/proc/sys/net/ipv4/tcp_congestion_control"));
  machine.kernel = kernel_release();
  machine.instructions = compute::choose_table(variable("TUTTI_ISA").value_or("")).isa;
  machine.version = TUTTI_VERSION;
  return machine;
}

std::vector<std::string> describe(const Machine& machine) {
  return {fmt::format("cores {}, ranks per core {:g}{}, {}, reductions by {}", machine.cores, machine.ranks_per_core,
                      machine.ranks_per_core > 1 ? " (oversubscribed)" : "", machine.pinned ? "pinned" : "not pinned",
                      machine.instructions),
          fmt::format("transport {}, TCP congestion control {}, kernel {}, tutti {}", machine.transport,
                      machine.congestion, machine.kernel, machine.version)};
}

std::string processor_name() {
  const std::string name = field("/proc/cpuinfo", "model name");
  return name.empty() ? "unknown processor" : name;
}

std::size_t room_in_cgroups(const std::string& membership, const std::string& mounts) {
  std::size_t least = std::numeric_limits<std::size_t>::max();
  std::istringstream lines{membership};
  for (std::string line; std::getline(lines, line);) {  // "0::/path", "4:memory:/path"
    const std::size_t begin = line.find('/');
    if (begin == std::string::npos) continue;
    const bool old = line.find(":memory:") < begin;
    if (!old && !line.starts_with("0::")) continue;
    const std::string top = mounts + (old ? "/memory" : "");
    // Every ancestor may have a limit, too. In a container the path may not exist, and the top may be the container's
    // own cgroup.
    std::string path = line.substr(begin);
    for (bool more = true; more; path = path.substr(0, path.rfind('/'))) {
      if (path == "/") path.clear();
      more = !path.empty();
      least = std::min(least, room_in_cgroup(top + path + "/", old));
    }
  }
  return least;
}

std::size_t available_memory() {
  std::istringstream words{field("/proc/meminfo", "MemAvailable")};
  std::size_t kibibytes = 0;
  words >> kibibytes;
  std::ostringstream membership;
  membership << std::ifstream{"/proc/self/cgroup"}.rdbuf();
  return std::min(kibibytes * 1024, room_in_cgroups(membership.str(), "/sys/fs/cgroup"));
}

std::size_t peak_memory() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::size_t>(usage.ru_maxrss) * 1024;
}

std::vector<std::string> recorded_environment(const char* const* environ) {
  constexpr std::array<std::string_view, 3> families{"TUTTI_", "NCCL_", "GLOO_"};
  // Slurm also has tokens and names of users there.
  constexpr std::array<std::string_view, 15> of_slurm{
      "SLURM_CLUSTER_NAME",  "SLURM_CPUS_ON_NODE", "SLURM_CPUS_PER_TASK", "SLURM_CPU_BIND",     "SLURM_DISTRIBUTION",
      "SLURM_GPUS_PER_TASK", "SLURM_HINT",         "SLURM_JOB_ID",        "SLURM_JOB_NODELIST", "SLURM_JOB_PARTITION",
      "SLURM_MEM_BIND",      "SLURM_MPI_TYPE",     "SLURM_NNODES",        "SLURM_NTASKS",       "SLURM_TASKS_PER_NODE"};
  constexpr std::array<std::string_view, 4> private_parts{"SECRET", "TOKEN", "PASS", "KEY"};
  std::vector<std::string> kept;
  for (const char* const* entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text{*entry};
    const std::string_view name = text.substr(0, text.find('='));
    const auto begins = [&](std::string_view family) { return name.starts_with(family); };
    const auto holds = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
    const bool of_family = std::any_of(families.begin(), families.end(), begins) &&
                           std::none_of(private_parts.begin(), private_parts.end(), holds);
    if (of_family || std::find(of_slurm.begin(), of_slurm.end(), name) != of_slurm.end()) kept.emplace_back(text);
  }
  std::sort(kept.begin(), kept.end());
  return kept;
}

}  // namespace tutti::cli::bench
