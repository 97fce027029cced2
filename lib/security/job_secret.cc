#include "lib/security/job_secret.h"

#include "lib/base/environment.h"
#include "tutti/error.h"

namespace tutti {

Secret job_secret(const std::string& path) {
  if (!path.empty()) return Secret::from_file(path);
  const auto text = variable("TUTTI_SECRET");
  const auto file = variable("TUTTI_SECRET_FILE");
  if (text && file)
    throw Error{ErrorCode::invalid_argument, "TUTTI_SECRET and TUTTI_SECRET_FILE are both set: unset one of them"};
  if (text) return Secret::from_text(*text, "TUTTI_SECRET");
  return file ? Secret::from_file(*file) : Secret{};
}

bool insecure_allowed() { return environment::is_on("TUTTI_INSECURE"); }

std::shared_ptr<TlsProxies> job_tls_proxies(const Secret& secret, bool wanted) {
  if (!environment::is_on("TUTTI_TLS") && !wanted) return nullptr;
  if (secret.empty())
    throw Error{ErrorCode::invalid_argument,
                "TLS (TUTTI_TLS, --tls, the option tls) needs a secret: without one the keys would travel in the "
                "clear. Give all ranks the same "
                "TUTTI_SECRET or TUTTI_SECRET_FILE (`openssl rand -hex 32` makes one), or start them with `tutti run`, "
                "which makes one on one node"};
  return std::make_shared<TlsProxies>();
}

}  // namespace tutti
