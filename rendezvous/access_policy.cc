#include "rendezvous/access_policy.h"

#include <fmt/format.h>

#include "tutti/error.h"

namespace tutti::rendezvous {

void check_access(const net::Address& address, const AccessPolicy& access_policy) {
  if (address.is_loopback() || !access_policy.secret.empty() || access_policy.insecure) return;
  throw Error{
      ErrorCode::invalid_argument,
      fmt::format("a store at {} could be read and changed by everybody who reaches it. Give it a secret, the same on "
                  "all hosts: TUTTI_SECRET, or TUTTI_SECRET_FILE with the path of a file (`openssl rand -hex 32` makes "
                  "one). Or say that you trust that network: --insecure, or TUTTI_INSECURE=1.",
                  address.text())};
}

}  // namespace tutti::rendezvous
