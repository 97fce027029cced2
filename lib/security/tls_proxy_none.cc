// Replaces tls_proxy.cc in a library that was built without TLS.

#include <cerrno>

#include "lib/security/tls_proxy.h"
#include "tutti/error.h"

namespace tutti {

class TlsProxies::Impl {};

TlsProxies::TlsProxies() {
  throw Error{ErrorCode::unsupported,
              "this tutti was built without TLS: install OpenSSL's libssl (Debian: libssl-dev) and build it with "
              "-Dtls=enabled, or unset TUTTI_TLS"};
}
TlsProxies::~TlsProxies() = default;

Descriptor TlsProxies::encrypt(Descriptor, Side, const Digest&) noexcept {
  errno = ENOSYS;
  return {};
}
Descriptor TlsProxies::encrypt(Descriptor, Handshake&) noexcept {
  errno = ENOSYS;
  return {};
}
int TlsProxies::is_ready(int) noexcept { return ENOSYS; }
Descriptor TlsProxies::connection_behind(const Descriptor&) const noexcept { return {}; }
int TlsProxies::error_behind(const Descriptor&) const noexcept { return 0; }
std::size_t TlsProxies::count() const noexcept { return 0; }

}  // namespace tutti
