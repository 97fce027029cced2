// The limits on processes and open files, checked before ranks are started, since a job that starts only in part would
// have to be ended again.

#include "cli/base/process_limits.h"

#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/control_groups.h"
#include "tutti/error.h"

namespace tutti::cli {
namespace {

/// For the store, signals, and files that the library opens briefly.
constexpr std::uint64_t spare_descriptors = 24;

std::optional<rlimit> before_raise;

[[noreturn]] void too_many(std::string_view who, int ranks, std::uint64_t needed, const std::string& what,
                           std::uint64_t allowed, const std::string& limit, std::string_view allows) {
  throw Error{ErrorCode::system, fmt::format("{}: {} ranks need about {} {}, and {} {} {}; raise it, or start "
                                             "fewer ranks on this host",
                                             who, ranks, needed, what, limit, allows, allowed)};
}

std::uint64_t open_descriptors() {
  std::uint64_t count = 0;
  std::error_code failed;
  for (auto entry = std::filesystem::directory_iterator{"/proc/self/fd", failed}; !failed && entry != end(entry);
       entry.increment(failed))
    ++count;
  return count;
}

std::optional<std::uint64_t> number_in(const std::string& path) {
  std::ifstream file{path};
  std::uint64_t number = 0;
  return file >> number ? std::optional{number} : std::nullopt;  // "max" means no limit
}

/// User and number of tasks from a `status` file of /proc.
struct Tasks {
  std::uint64_t user = 0;
  std::uint64_t count = 0;
};

Tasks tasks_in(const std::string& status) {
  Tasks tasks;
  std::ifstream file{status};
  for (std::string word; file >> word; file.ignore(std::numeric_limits<std::streamsize>::max(), '\n')) {
    if (word == "Uid:") file >> tasks.user;  // the real user, for which the kernel counts
    if (word == "Threads:") file >> tasks.count;
  }
  return tasks;
}

std::uint64_t tasks_of(std::uint64_t user, const std::string& root) {
  std::uint64_t count = 0;
  std::error_code failed;
  for (auto entry = std::filesystem::directory_iterator{root + "/proc", failed}; !failed && entry != end(entry);
       entry.increment(failed)) {
    if (entry->path().filename().string().find_first_not_of("0123456789") != std::string::npos) continue;
    const Tasks tasks = tasks_in(entry->path() / "status");
    if (tasks.user == user) count += tasks.count;
  }
  return count;
}

/// All tasks of the system: the number after the slash in "0.52 0.58 0.59 1/467 12345".
std::uint64_t tasks_of_all(const std::string& root) {
  std::ifstream file{root + "/proc/loadavg"};
  std::uint64_t count = 0;
  file.ignore(std::numeric_limits<std::streamsize>::max(), '/') >> count;
  return count;
}

}  // namespace

std::vector<ProcessLimit> process_limits(const UserLimit& user, const std::string& root) {
  std::vector<ProcessLimit> limits;
  const auto add = [&](std::string name, std::uint64_t most, std::uint64_t now) {
    limits.push_back({std::move(name), most > now ? most - now : 0});
  };
  if (user.most) add("the limit of this user's processes (ulimit -u)", *user.most, tasks_of(user.id, root));
  for (const char* const name : {"pid_max", "threads-max"})
    if (const auto most = number_in(fmt::format("{}/proc/sys/kernel/{}", root, name)))
      add(fmt::format("the system (sysctl kernel.{})", name), *most, tasks_of_all(root));
  for (const ControlGroup& group : control_groups("pids", root))
    if (const auto most = number_in(fmt::format("{}{}/pids.max", root, group.folder)))
      add(fmt::format("the control group ({}/pids.max)", group.folder), *most,
          number_in(fmt::format("{}{}/pids.current", root, group.folder)).value_or(0));
  return limits;
}

void raise_descriptor_limit() {
  rlimit limit{};
  if (before_raise || ::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  before_raise = limit;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

void give_back_descriptor_limit() {
  if (before_raise) ::setrlimit(RLIMIT_NOFILE, &*before_raise);
}

void require_room_for(std::string_view who, int ranks, const RankNeeds& each) {
  raise_descriptor_limit();
  const auto count = static_cast<std::uint64_t>(ranks);
  const std::uint64_t files = count * static_cast<std::uint64_t>(each.descriptors);
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && files + open_descriptors() + spare_descriptors > limit.rlim_cur)
    too_many(who, ranks, files + open_descriptors() + spare_descriptors, "open files", limit.rlim_cur,
             "the hard limit of this process (ulimit -Hn)", "allows");
  const std::uint64_t processes = count * static_cast<std::uint64_t>(each.processes);
  UserLimit user{::getuid(), {}};
  if (::geteuid() != 0 && ::getrlimit(RLIMIT_NPROC, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)  // not for root
    user.most = limit.rlim_cur;
  for (const ProcessLimit& one : process_limits(user))
    if (processes > one.left)
      too_many(who, ranks, processes, "more processes and threads", one.left, one.name, "leaves");
}

}  // namespace tutti::cli
