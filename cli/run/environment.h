#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/run/run.h"
#include "lib/security/secret.h"
#include "rendezvous/endpoint.h"

namespace tutti::cli {

/// Where the ranks of a job meet, as they are told.
struct RendezvousUrl {
  std::string rendezvous;  ///< "store://host:port"
  std::string id;
  rendezvous::Endpoint endpoint;  ///< of the store that PyTorch's clients can join
  Secret made_secret = {};  ///< for this job, and known to nobody else; empty: the ranks have one already, or need none
  int restart = 0;          ///< how often the ranks were started before; part of the prefix of all keys
};

/// The variables that tell a rank who it is: ours, then torchrun's, then those the user exports.
std::vector<std::pair<std::string, std::string>> rank_variables(const Job& job, const RendezvousUrl& meeting,
                                                                int local_rank);

/// Throws Error{invalid_argument} for TUTTI_ALGO as the ranks get it, which would refuse it one by one.
void check_variables(const Job& job);

/// This process's environment with `variables` put over it, as "NAME=value".
std::vector<std::string> with_variables(const std::vector<std::pair<std::string, std::string>>& variables);

/// What run_job() would start: for each rank the variables it adds and the command, as one would type it.
std::string describe_ranks(const Job& job);

}  // namespace tutti::cli
