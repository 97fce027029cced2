#pragma once

#include <string>
#include <vector>

#include "lib/observe/log.h"
#include "lib/security/secret.h"
#include "lib/startup/join.h"

namespace tutti::detail {

/// A key that only the ranks of this communicator know. It is derived from the job's secret, if there is one, and from
/// random bytes that rank 0 publishes in `store`, so that messages of one communicator are invalid in another. Every
/// rank calls. If a predecessor of rank 0 ended before all had met, rank 0 uses the bytes that it had published, since
/// others may have read them.
Secret agree_on_key(const JoinOptions& options, Store& store);

/// A text that a rank may publish so that others can check whether it has the same key.
std::string fingerprint(const Secret& key);

/// Throws Error{rendezvous} that names the first rank that was started with another secret.
void check_fingerprints(const std::vector<std::string>& fingerprints, int rank);

/// Warns once if the key is known to everybody who can read a foreign store.
void warn_of_open_key(const JoinOptions& options, std::size_t hosts, const Log& log);

}  // namespace tutti::detail
