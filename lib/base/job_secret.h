#pragma once

#include <string>

#include "lib/base/secret.h"

namespace tutti {

/// The secret that all processes of this one's job share: from the file at `path` unless that is empty, else
/// TUTTI_SECRET, else the file that TUTTI_SECRET_FILE names, else none. Throws Error{invalid_argument} that names where
/// it comes from, when it is no good or both variables are set.
Secret job_secret(const std::string& path = {});

/// TUTTI_INSECURE: without a secret, a store may be reachable from other hosts all the same. Throws
/// Error{invalid_argument} when it is neither 0 nor 1.
bool insecure_allowed();

}  // namespace tutti
