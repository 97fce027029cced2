#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lib/failure/control_message.h"

namespace tutti::detail {

/// What the coordinator knows about one member of a group whose operation takes too long; or, when lists are compared,
/// about a rank that others take for a member.
struct RankView {
  int rank = -1;                      ///< global
  std::string name;                   ///< with its rank in the group, see lib/base/rank_name.h
  std::string job_name = {};          ///< with its rank in the job: "rank 2 (host a, pid 123)"
  bool is_member = true;              ///< members come first
  std::optional<Status> status = {};  ///< none: it did not answer in time
  double silent_seconds = 0;          ///< since its last heartbeat
  bool left = false;                  ///< its process has said that it leaves
  bool known_gone = false;            ///< is_gone() was true before the report was made

  /// Whether its process has left, or it has closed the group.
  bool is_gone() const { return left || (status && status->presence == Status::Presence::closed); }
};

/// Ends the name of an algorithm that runs on the streams of GPUs.
inline constexpr std::string_view on_streams = " on streams";
/// Before that, if ranks use each other's memory.
inline constexpr std::string_view as_tasks = " as tasks";
/// Ends it for buffers in memory of tutti::allocate().
inline constexpr std::string_view in_allocated_memory = " in allocated memory";
/// Follows the two calls of ranks of which only one gave such buffers.
inline constexpr std::string_view only_one_allocated = ": give all ranks memory of the same allocate()";
/// Follows the two calls of ranks of which one gave device memory and the other did not.
inline constexpr std::string_view other_memory =
    ": one is on device memory and the other on host memory, and all ranks must give the same kind";

/// Follows two calls that differ in the algorithm alone.
inline constexpr std::string_view other_algorithm =
    ": give all ranks the same tuning table, options, TUTTI_ALGO and TUTTI_DETERMINISTIC";
/// The same where ranks use each other's memory.
inline constexpr std::string_view other_tasks =
    ": give all ranks the same options, and parts of the same allocated or registered memory at the same offset";

/// Finds the rank to blame for the operation of `report`. A pure function.
///
/// Some findings are certain at any time, such as different calls, or a wait for a rank that has closed the
/// communicator. Others count only after the deadline, since a rank that has not called yet may just be busy. Nothing:
/// wait on.
std::optional<Failure> diagnose(const Report& report, std::span<const RankView> views);

}  // namespace tutti::detail
