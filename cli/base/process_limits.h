#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::cli {

/// The most ranks that a job may have, however it is started.
inline constexpr int most_ranks_of_job = 65536;

/// What one rank takes from the process that starts it, and from the system.
struct RankNeeds {
  int descriptors = 0;  ///< in the process that starts it
  int processes = 1;    ///< threads are counted as well
};

/// Threads that the library has in each rank beside the caller's (as counted in /proc of ranks that run).
inline constexpr int threads_of_rank = 4;

struct ProcessLimit {
  std::string name;
  std::uint64_t left = 0;  ///< how many more processes it allows
};

struct UserLimit {
  std::uint64_t id = 0;
  std::optional<std::uint64_t> most;  ///< of tasks; root has no such limit
};

/// What stands in the way of more processes: the user's limit, the system's, and those of the control groups that this
/// process is in. `root` has /proc and /sys in it.
std::vector<ProcessLimit> process_limits(const UserLimit& user, const std::string& root = {});

/// As many open files as this process may have: one that starts ranks or serves a store needs some for each. What it
/// starts gets the limit that it had itself, see give_back_descriptor_limit(): programs that use select() need that.
void raise_descriptor_limit();
/// For a child before exec. System calls only.
void give_back_descriptor_limit();

/// Before ranks are started: raises the limit of open files, and throws Error{system} where those ranks cannot all be
/// started all the same. It names the limit that is too low, and says what to do.
void require_room_for(std::string_view who, int ranks, const RankNeeds& each);

}  // namespace tutti::cli
