#pragma once

#include <memory>
#include <string>

#include "lib/security/secret.h"
#include "lib/security/tls_proxy.h"

namespace tutti {

/// The secret that all processes of this job share: from the file at `path` unless that is empty, else TUTTI_SECRET,
/// else the file that TUTTI_SECRET_FILE names, else none. Throws Error{invalid_argument} that names its source if the
/// secret is invalid, or if both variables are set.
Secret job_secret(const std::string& path = {});

/// TUTTI_INSECURE: a store without a secret may be reachable from other hosts. Throws Error{invalid_argument} if it is
/// neither 0 nor 1.
bool insecure_allowed();

/// Encrypts the connections of this process's job if that is `wanted` or TUTTI_TLS says so; else null. Throws
/// Error{invalid_argument} if that variable is neither 0 nor 1, or if there is no `secret` to derive keys from, and
/// Error{unsupported} if this library was built without TLS.
std::shared_ptr<TlsProxies> job_tls_proxies(const Secret& secret, bool wanted = false);

}  // namespace tutti
