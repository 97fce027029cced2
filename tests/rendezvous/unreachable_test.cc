#include "rendezvous/unreachable.h"

#include <doctest/doctest.h>

#include "tests/rendezvous/harness.h"

namespace tutti::testing {
namespace {

using rendezvous::Interface;

const Interface lo4{"lo", "127.0.0.1", true, true}, lo6{"lo", "::1", true, true};
const Interface eth4{"eth0", "10.0.0.5", false, true}, eth6{"eth0", "fd00::5", false, true};
const Interface link_local{"eth0", "fe80::5%eth0", false, true}, asleep{"lo", "127.0.0.1", true, false};

rendezvous::Unreachable why(const std::vector<const char*>& addresses, const std::vector<Interface>& host) {
  std::vector<net::Address> all;
  for (const char* address : addresses) {
    const auto found = rendezvous::resolve({address, 29500}, Clock::now() + patience).addresses;
    all.insert(all.end(), found.begin(), found.end());
  }
  return why_unreachable(all, host);
}

}  // namespace

TEST_CASE("loopback that is down is never reached, and the remedy is named") {
  for (const std::vector<const char*>& addresses : {std::vector{"127.0.0.1"}, {"::1"}, {"::1", "127.0.0.1"}})
    for (const std::vector<Interface>& host : {std::vector<Interface>{}, {eth4}, {asleep, eth4, eth6}}) {
      const auto [problem, at_once] = why(addresses, host);
      CHECK(contains(problem, "ip link set lo up"));
      CHECK(at_once);
    }
  CHECK(why({"10.0.0.7"}, {asleep, eth4}).problem.empty());
}

TEST_CASE("a host without addresses of the family that is wanted is told which there are") {
  CHECK(contains(why({"::1"}, {lo4, eth4}).problem, "of IPv6 only, and this host has a loopback interface with IPv4"));
  CHECK(why({"::1"}, {lo4, eth4}).at_once);
  CHECK(contains(why({"fd00::7", "fd00::8"}, {lo4, lo6, eth4, link_local}).problem, "addresses of IPv6 only"));
  CHECK_FALSE(why({"fd00::7"}, {lo4, lo6, eth4}).at_once);  // the network may just be coming up
  CHECK(contains(why({"10.0.0.7"}, {lo4, lo6, eth6}).problem, "Name an address of IPv6"));
}

TEST_CASE("an attempt that may still succeed is no lasting trouble") {
  CHECK(why({}, {}).problem.empty());
  CHECK(why({"127.0.0.1"}, {lo4}).problem.empty());
  CHECK(why({"10.0.0.7"}, {lo4, eth4}).problem.empty());
  CHECK(why({"10.0.0.7"}, {lo4}).problem.empty());  // no network at all, yet
  CHECK(why({"fd00::7", "10.0.0.7"}, {lo4, eth4}).problem.empty());
  CHECK(why({"fd00::7"}, {lo4, eth4, eth6}).problem.empty());
}

}  // namespace tutti::testing
