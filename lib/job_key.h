#pragma once

#include <string>
#include <vector>

#include "lib/base/log.h"
#include "lib/base/secret.h"
#include "lib/mesh.h"

namespace tutti::detail {

/// What only the ranks of this communicator know: made of the job's secret, if it has one, and of random bytes that
/// rank 0 publishes in the store, so that what was said in one communicator is worth nothing in another. Every rank
/// calls.
Secret agree_on_key(const JoinOptions& options);

/// What a rank may publish so that others see whether it has the same key.
std::string fingerprint(const Secret& key);

/// Throws Error{rendezvous} that names the first rank which was started with another secret than this one.
void check_fingerprints(const std::vector<std::string>& fingerprints, int rank);

/// Says it once if the key is no secret from those who can read a store that is not ours.
void warn_of_open_key(const JoinOptions& options, std::size_t hosts, const Log& log);

}  // namespace tutti::detail
