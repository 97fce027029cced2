#pragma once

#include "lib/base/net/address.h"

namespace tutti::testing {

// The kinds of addresses at which an acceptor may listen, for TEST_CASE_TEMPLATE. The kernel chooses port or name.

struct OverTcp {
  static net::Address anywhere() { return *net::parse_address("127.0.0.1", 0); }
};

struct OverUnix {
  static net::Address anywhere() { return net::any_unix_address(); }
};

}  // namespace tutti::testing
