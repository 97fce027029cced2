#pragma once

#include <cerrno>
#include <memory>
#include <string>
#include <thread>

#include "lib/security/handshake.h"
#include "transport/connector.h"
#include "transport/transport.h"

namespace tutti::testing {

/// A connection that an acceptor has let in; an empty one with the error of the last attempt if none did.
struct Connected {
  net::Socket socket;
  int error = 0;
};

/// Connects as `hello.from` to the acceptor at `address`. Tries again, as ranks do, until `deadline`.
inline Connected connect_as(const Hello& hello, const std::string& address, const Secret& key,
                            transport::Clock::time_point deadline,
                            const std::shared_ptr<TlsProxies>& tls_proxies = {}) {
  for (int attempts = 1;; ++attempts) {
    transport::Connector connector{net::parse_address(address).value(), key, hello, tls_proxies};
    int error = connector.advance();
    while (error == EAGAIN) {
      const bool is_ready = net::wait_until_ready(connector.socket(), connector.events(), deadline);
      error = is_ready ? connector.advance() : ETIMEDOUT;
    }
    if (error == 0) return {connector.take()};
    const auto next = transport::Clock::now() + transport::pause_after(attempts);
    if (error == transport::Connector::another_secret || !transport::worth_retrying(error) || next >= deadline)
      return {{}, error};
    std::this_thread::sleep_until(next);
  }
}

}  // namespace tutti::testing
