// Attempts to connect to a rank that takes no more connections for now.

#include "lib/failure/connect_attempts.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <chrono>
#include <vector>

#include "tests/support/address_kinds.h"

namespace tutti::detail {
namespace {

using namespace std::chrono_literals;
using tutti::testing::OverTcp;
using tutti::testing::OverUnix;

TEST_CASE_TEMPLATE("a rank whose queue is full is not taken for gone, and nothing spins until it has room", Kind,
                   OverTcp, OverUnix) {
  const net::Socket listener = net::make_stream(Kind::anywhere().family());
  REQUIRE(net::listen_on(listener, Kind::anywhere(), 0, 0s) == 0);
  const net::Address address = net::local_address(listener);
  const net::Socket first = net::make_stream(address.family());
  net::begin_connect(first, address);
  REQUIRE(net::wait_until_ready(first, POLLOUT, ConnectAttempts::Clock::now() + 20s));  // the queue has room for one
  const Secret key = Secret::random();
  for (const bool probe : {false, true}) {
    ConnectAttempts attempts{1, key, nullptr};
    const auto now = ConnectAttempts::Clock::now();
    if (probe) {
      attempts.probe(0, address.text(), now);
    } else {
      attempts.connect(0, address.text(), now);
    }
    CHECK(attempts.advance({}, now).empty());
    std::vector<pollfd> queries;
    attempts.add_queries(queries);
    CHECK(::poll(queries.data(), queries.size(), 0) == 0);
    CHECK(attempts.next() >= now + 100ms);
    CHECK(attempts.contains(0));
  }
}

TEST_CASE("a rank whose address is none is reported, and asked for again later") {
  const Secret key = Secret::random();
  ConnectAttempts attempts{1, key, nullptr};
  const auto now = ConnectAttempts::Clock::now();
  attempts.connect(0, "nowhere:", now);
  attempts.probe(2, "unix:no name", now);
  const auto outcomes = attempts.advance({}, now);
  REQUIRE(outcomes.size() == 2);
  CHECK((outcomes[0].rank == 0 && outcomes[0].error == EINVAL));
  CHECK((outcomes[1].rank == 2 && outcomes[1].error == EINVAL));
  CHECK(attempts.contains(0));
  CHECK(attempts.next() >= now + 100ms);
  CHECK(attempts.advance({}, now + 1ms).empty());
  CHECK(attempts.advance({}, attempts.next()).size() == 2);
}

}  // namespace
}  // namespace tutti::detail
