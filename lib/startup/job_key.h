#pragma once

#include <string>
#include <vector>

#include "lib/observe/log.h"
#include "lib/security/secret.h"
#include "lib/startup/mesh.h"

namespace tutti::detail {

/// What only the ranks of this communicator know: made of the job's secret, if it has one, and of random bytes that
/// rank 0 publishes in `store`, so that what was said in one communicator is worth nothing in another. Every rank
/// calls. Rank 0 takes what a process with its rank published that has ended before all had met, since others may have
/// read it.
Secret agree_on_key(const JoinOptions& options, Store& store);

/// What a rank may publish so that others see whether it has the same key.
std::string fingerprint(const Secret& key);

/// Throws Error{rendezvous} that names the first rank which was started with another secret than this one.
void check_fingerprints(const std::vector<std::string>& fingerprints, int rank);

/// Says it once if the key is no secret from those who can read a store that is not ours.
void warn_of_open_key(const JoinOptions& options, std::size_t hosts, const Log& log);

}  // namespace tutti::detail
