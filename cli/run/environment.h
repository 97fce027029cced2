#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/run/run.h"
#include "lib/security/secret.h"
#include "rendezvous/endpoint.h"

namespace tutti::cli {

/// Where the ranks of a job meet, as passed to them.
struct RendezvousUrl {
  std::string rendezvous;  ///< "store://host:port"
  std::string id;
  rendezvous::Endpoint endpoint;  ///< of the store that PyTorch's clients can join
  Secret made_secret = {};        ///< for this job only; empty: the ranks have a secret already, or need none
  int restart = 0;                ///< how often the ranks were started before; part of the prefix of all keys
};

/// Whether `tutti run` itself gives each rank a variable of that name, such as its rank.
bool is_given(const Job& job, std::string_view name);

/// The variables of a rank: ours, then torchrun's, then those that the user exports.
std::vector<std::pair<std::string, std::string>> rank_variables(const Job& job, const RendezvousUrl& rdzv,
                                                                int local_rank);

/// Throws Error{invalid_argument} for the first TUTTI_ variable that each rank would refuse.
void check_variables(const Job& job);

/// This process's environment with `variables` added or replaced, as "NAME=value".
std::vector<std::string> with_variables(const std::vector<std::pair<std::string, std::string>>& variables);

/// A preview of run_job(): for each rank the variables it adds and the command, as one would type it.
std::string describe_ranks(const Job& job);

}  // namespace tutti::cli
