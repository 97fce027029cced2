#pragma once

#include <string>
#include <string_view>

namespace tutti::detail {

/// The name of a group's rank in errors, given its name in the whole job, "rank 3 (host a, pid 12)". It is the same if
/// the numbers are equal, else "rank 1 (rank 3 of the job, host a, pid 12)". So a number is always that of the
/// communicator on which the call was made, unless it says otherwise.
inline std::string name_in_group(int rank, int job_rank, std::string_view job_name) {
  if (rank == job_rank) return std::string{job_name};
  const std::string job = "rank " + std::to_string(job_rank);
  if (rank < 0) return job + " of the job" + std::string{job_name.substr(job.size())};
  return "rank " + std::to_string(rank) + " (" + job + " of the job, " + std::string{job_name.substr(job.size() + 2)};
}

}  // namespace tutti::detail
