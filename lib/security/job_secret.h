#pragma once

#include <memory>
#include <string>

#include "lib/security/secret.h"
#include "lib/security/tls_proxy.h"

namespace tutti {

/// The secret that all processes of this one's job share: from the file at `path` unless that is empty, else
/// TUTTI_SECRET, else the file that TUTTI_SECRET_FILE names, else none. Throws Error{invalid_argument} that names where
/// it comes from, when it is no good or both variables are set.
Secret job_secret(const std::string& path = {});

/// TUTTI_INSECURE: without a secret, a store may be reachable from other hosts all the same. Throws
/// Error{invalid_argument} when it is neither 0 nor 1.
bool insecure_allowed();

/// What encrypts the connections of this process's job, if that is `wanted` or TUTTI_TLS says so; else null. Throws
/// Error{invalid_argument} when that variable is neither 0 nor 1, or there is no `secret` from which keys could be
/// made, and Error{unsupported} where this library was built without TLS.
std::shared_ptr<TlsProxies> job_tls_proxies(const Secret& secret, bool wanted = false);

}  // namespace tutti
