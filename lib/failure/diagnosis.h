#pragma once

#include <optional>
#include <span>
#include <string>

#include "lib/failure/control_message.h"

namespace tutti::detail {

/// One member of a group whose operation takes too long, as the coordinator sees it; or, for the
/// comparison of lists, a rank that others take for a member.
struct RankView {
  int rank = -1;                      ///< global
  std::string name;                   ///< in the ranks of the group, see lib/base/rank_name.h
  std::string job_name = {};          ///< in those of the job: "rank 2 (host a, pid 123)"
  bool is_member = true;              ///< the others come last
  std::optional<Status> status = {};  ///< none: it did not answer in time
  double silent_seconds = 0;          ///< since its last heartbeat
  bool left = false;                  ///< its process has said goodbye
  bool known_gone = false;            ///< is_gone() was known before the report was made

  /// Its process has said goodbye, or it has closed the group.
  bool is_gone() const { return left || (status && status->presence == Status::Presence::closed); }
};

/// The rank to blame for the operation that `report` complains about, in words. Pure.
///
/// Some findings are certain at any time (ranks that called different things, one that waits for a rank that has
/// closed the communicator); others only count once the deadline has passed, because a rank that has not
/// called yet may just be busy. Nothing: wait on.
std::optional<Failure> diagnose(const Report& report, std::span<const RankView> views);

}  // namespace tutti::detail
