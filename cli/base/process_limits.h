#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::cli {

/// Resources that one rank needs from the process that starts it, and from the system.
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
  std::optional<std::uint64_t> most;  ///< limit on tasks; root has none
};

/// The limits on further processes: the user's, the system's, and those of the control groups of this process. `root`
/// contains /proc and /sys.
std::vector<ProcessLimit> process_limits(const UserLimit& user, const std::string& root = {});

/// Raises the limit of open files as far as allowed, for processes that start ranks or serve a store. Child processes
/// get the original limit, see give_back_descriptor_limit(), since programs that use select() need that.
void raise_descriptor_limit();
/// For a child before exec. System calls only.
void give_back_descriptor_limit();

/// Call it before ranks are started: raises the limit of open files, and throws Error{system} if not all ranks can be
/// started even so. The error names the limit that is too low, and the remedy.
void require_room_for(std::string_view who, int ranks, const RankNeeds& each);

}  // namespace tutti::cli
