#include "rendezvous/interfaces.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>

#include "tests/rendezvous/harness.h"
#include "tests/rendezvous/launches.h"

namespace tutti::testing {
namespace {

using rendezvous::Choice;
using rendezvous::Interface;
using rendezvous::Launch;

const std::vector<Interface> host_interfaces{
    {"lo", "127.0.0.1", true, true},   {"docker0", "172.17.0.1", false, true}, {"eth0", "10.0.0.5", false, true},
    {"eth1", "10.1.0.5", false, true}, {"ib0", "192.168.7.5", false, true},    {"ib1", "192.168.8.5", false, false},
    {"lo", "::1", true, true},         {"eth0", "fd00::5", false, true},       {"eth0", "fe80::5%eth0", false, true},
};

rendezvous::Lookup lookup(const Variables& variables) {
  return [variables](const std::string& name) -> std::optional<std::string> {
    const auto it = variables.find(name);
    return it == variables.end() ? std::nullopt : std::optional{it->second};
  };
}

Choice choice_among(std::span<const Interface> all, const std::string& route, const Variables& variables = {},
                    bool one_host = false) {
  const rendezvous::Lookup environment = lookup(variables);
  return choose_among(all, route, {environment, one_host});
}

Interface choose_interface(const std::string& url, const Variables& variables = {}) {
  const rendezvous::Lookup environment = lookup(variables);
  return rendezvous::choose_interface(url, {environment}).interface;
}

std::string chosen(const std::string& route, const Variables& variables = {}) {
  const Interface interface = choice_among(host_interfaces, route, variables).interface;
  return interface.name + " " + interface.address;
}

}  // namespace

TEST_CASE("peers get the address from which the route to the rendezvous starts") {
  CHECK(chosen("10.1.0.5") == "eth1 10.1.0.5");
  CHECK(chosen("fd00::5") == "eth0 fd00::5");
  CHECK(chosen("127.0.0.1") == "lo 127.0.0.1");
  CHECK(chosen("::1") == "lo ::1");
}

TEST_CASE("without a route it is what leads out of this host, before what containers made, before loopback") {
  CHECK(chosen("") == "eth0 10.0.0.5");
  const std::vector<Interface> few{host_interfaces[0], host_interfaces[1]};
  CHECK(choice_among(few, "").interface.name == "docker0");
  CHECK(choice_among({few.data(), 1}, "").interface.name == "lo");
}

TEST_CASE("loopback is not offered to peers that are elsewhere") {
  const std::vector<Interface> only_loopback{host_interfaces[0]};
  CHECK_THROWS_AS(choice_among(only_loopback, "10.0.0.5"), Error);
}

TEST_CASE("TUTTI_SOCKET_IFNAME takes NCCL's grammar") {
  const auto with = [](const char* names, const char* route = "10.0.0.5") {
    return chosen(route, {{"TUTTI_SOCKET_IFNAME", names}});
  };
  CHECK(with("ib") == "ib0 192.168.7.5");
  CHECK(with("eth1,ib0") == "eth1 10.1.0.5");
  CHECK(with("eth") == "eth0 10.0.0.5");  // the route decides among those named
  CHECK(with("eth", "10.1.0.5") == "eth1 10.1.0.5");
  CHECK(with("=eth1") == "eth1 10.1.0.5");
  CHECK(with("^eth") == "ib0 192.168.7.5");
  CHECK(with("^eth,ib") == "docker0 172.17.0.1");
  CHECK(with("^=eth0") == "eth1 10.1.0.5");
  CHECK(with("lo") == "lo 127.0.0.1");  // who asks for loopback by name gets it
  CHECK(with("") == "eth0 10.0.0.5");
}

TEST_CASE("further interfaces that are named may be used, too, in the order of the names") {
  const auto others = [](const char* names, const char* route = "10.0.0.5") {
    std::string list;
    for (const Interface& other : choice_among(host_interfaces, route, {{"TUTTI_SOCKET_IFNAME", names}}).others)
      list += (list.empty() ? "" : " ") + other.name + " " + other.address;
    return list;
  };
  CHECK(others("eth0").empty());
  CHECK(others("eth0,eth1") == "eth1 10.1.0.5");
  CHECK(others("ib,eth") == "ib0 192.168.7.5 eth1 10.1.0.5");  // ib1 is down
  CHECK(others("eth,ib,lo", "10.1.0.5") == "eth0 10.0.0.5 ib0 192.168.7.5");
  CHECK(others("^docker").empty());  // no interface is named
  CHECK(choice_among(host_interfaces, "10.0.0.5").others.empty());
  CHECK(choice_among(host_interfaces, "10.0.0.5", {{"NCCL_SOCKET_IFNAME", "eth,ib"}})
            .others.empty());  // meant for another library
}

TEST_CASE("names without an interface that can be used are told") {
  const auto without = [](const char* variable, const char* names) {
    std::string list;
    for (const std::string& name : choice_among(host_interfaces, "10.0.0.5", {{variable, names}}).without)
      list += (list.empty() ? "" : " ") + name;
    return list;
  };
  CHECK(without("TUTTI_SOCKET_IFNAME", "eth,ib").empty());
  CHECK(without("TUTTI_SOCKET_IFNAME", "eth0,eth").empty());
  CHECK(without("TUTTI_SOCKET_IFNAME", "=eth0,eth,ib1") == "eth ib1");  // ib1 is down
  CHECK(without("TUTTI_SOCKET_IFNAME", "^ib1").empty());
  CHECK(without("NCCL_SOCKET_IFNAME", "eth,wlan").empty());
}

TEST_CASE("NCCL's and Gloo's variables are read where ours is not set; Gloo's names are exact") {
  CHECK(chosen("10.0.0.5", {{"NCCL_SOCKET_IFNAME", "ib"}}) == "ib0 192.168.7.5");
  CHECK(chosen("10.0.0.5", {{"GLOO_SOCKET_IFNAME", "eth1"}}) == "eth1 10.1.0.5");
  CHECK(chosen("10.0.0.5", {{"GLOO_SOCKET_IFNAME", "eth1"}, {"NCCL_SOCKET_IFNAME", "ib"}}) == "ib0 192.168.7.5");
  CHECK(chosen("10.0.0.5", {{"TUTTI_SOCKET_IFNAME", "eth0"}, {"NCCL_SOCKET_IFNAME", "ib"}}) == "eth0 10.0.0.5");
  CHECK_THROWS_AS(chosen("10.0.0.5", {{"GLOO_SOCKET_IFNAME", "eth"}}), Error);
}

TEST_CASE("TUTTI_SOCKET_FAMILY chooses the kind of address") {
  CHECK(chosen("10.0.0.5", {{"TUTTI_SOCKET_FAMILY", "AF_INET6"}}) == "eth0 fd00::5");
  CHECK(chosen("fd00::5", {{"TUTTI_SOCKET_FAMILY", "AF_INET"}}) == "eth0 10.0.0.5");
  CHECK(contains(error_of([] { chosen("", {{"TUTTI_SOCKET_FAMILY", "IPv6"}}); }).what(), "AF_INET6"));
}

TEST_CASE("when no interface fits, the error names the wish and what there is") {
  const Error error = error_of([] {
    chosen("10.0.0.5", {{"TUTTI_SOCKET_IFNAME", "wlan,ib1"}, {"TUTTI_SOCKET_FAMILY", "AF_INET"}});
  });
  CHECK(error.code() == ErrorCode::invalid_argument);
  for (const char* part :
       {"TUTTI_SOCKET_IFNAME=wlan,ib1", "AF_INET", "eth0 10.0.0.5", "ib1 192.168.8.5 (down)", "lo ::1"})
    CHECK(contains(error.what(), part));
}

TEST_CASE("a variable of NCCL's or Gloo's that fits nothing does not stop a job of one host, which is warned") {
  const std::vector<Interface> only_loopback{host_interfaces[0]};
  for (const auto& given : Variables{{"NCCL_SOCKET_IFNAME", "^lo,docker"}, {"GLOO_SOCKET_IFNAME", "eth7"}}) {
    const std::string variable = given.first, names = given.second;
    CAPTURE(variable);
    const Choice choice = choice_among(only_loopback, "127.0.0.1", {{variable, names}}, true);
    CHECK(choice.interface.name == "lo");
    CHECK(contains(choice.warning, variable + "=" + names));
    CHECK(contains(error_of([&] {
                     choice_among(only_loopback, "", {{variable, names}});
                   }).what(),
                   "TUTTI_SOCKET_IFNAME"));
  }
  CHECK(choice_among(host_interfaces, "127.0.0.1", {{"NCCL_SOCKET_IFNAME", "eth1"}}, true).interface.name == "eth1");
  CHECK(choice_among(host_interfaces, "127.0.0.1", {{"NCCL_SOCKET_IFNAME", "eth1"}}, true).warning.empty());
  // Our own variable was meant for us.
  CHECK_THROWS_AS(choice_among(host_interfaces, "127.0.0.1", {{"TUTTI_SOCKET_IFNAME", "eth7"}}, true), Error);
}

TEST_CASE("all ranks are on one host when the launcher says so, or when they meet on loopback") {
  const auto one = [](const Launch& launch) { return is_on_one_host(launch); };
  CHECK(one({.size = 4, .local_size = 4, .rendezvous = "tcp://n0:1"}));
  CHECK(one({.size = 4, .rendezvous = "file:///tmp/x", .own_folder = true}));
  for (const char* loopback : {"127.0.0.1", "127.0.1.1", "localhost", "[::1]"})
    CHECK(one({.size = 4, .rendezvous = std::string{"tcp://"} + loopback + ":29500"}));
  CHECK_FALSE(one({.size = 4, .local_size = 2, .rendezvous = "tcp://n0:1"}));
  CHECK_FALSE(one({.size = 4, .rendezvous = "tcp://10.0.0.1:1"}));
  CHECK_FALSE(one({.size = 4, .rendezvous = "file:///shared/x"}));
  CHECK_FALSE(one({.size = 4}));
}

TEST_CASE("a name of this host that leads to loopback does not make loopback the address for peers") {
  std::array<char, 256> name{};
  CHECK(::gethostname(name.data(), name.size() - 1) == 0);
  const rendezvous::Endpoint here{name.data(), 29500};
  const std::string address = rendezvous::hidden_loopback(here, Clock::now() + patience);
  if (address.empty()) {
    MESSAGE("this host's name does not lead to loopback: nothing to see");
    return;
  }
  const auto all = rendezvous::interfaces();
  const bool others = std::any_of(all.begin(), all.end(), [](const Interface& one) {
    return one.up && !one.loopback && !one.address.starts_with("fe80:");
  });
  CHECK(choose_interface("tcp://" + to_string(here)).loopback == !others);
}

TEST_CASE("an address that stands for all of this host's says nothing about the peers") {
  const auto all = rendezvous::interfaces();
  for (const char* url : {"tcp://0.0.0.0:29500", "tcp://[::]:29500"})
    CHECK(choose_interface(url).address == choice_among(all, "").interface.address);
}

TEST_CASE("an address written as loopback hides nothing") {
  for (const char* numeric : {"127.0.0.1", "127.0.1.1", "::1", "localhost"}) {
    CHECK(rendezvous::is_written_loopback(numeric));
    CHECK(rendezvous::hidden_loopback({numeric, 1}, Clock::now() + patience).empty());
  }
  CHECK_FALSE(rendezvous::is_written_loopback("10.0.0.5"));
  CHECK(rendezvous::hidden_loopback({"10.0.0.5", 1}, Clock::now() + patience).empty());
  CHECK(rendezvous::hidden_loopback({"no-such-host.invalid", 1}, Clock::now() + patience).empty());
}

TEST_CASE("this host has a loopback interface, and the route to it starts there") {
  bool loopback = false;
  for (const Interface& interface : rendezvous::interfaces()) loopback = loopback || interface.address == "127.0.0.1";
  CHECK(loopback);
  CHECK(choose_interface("tcp://127.0.0.1:29500").address == "127.0.0.1");
  CHECK(choose_interface("tcp://localhost:29500", {{"TUTTI_SOCKET_FAMILY", "AF_INET"}}).loopback);
  CHECK(choose_interface("file:///some/file", {{"TUTTI_SOCKET_IFNAME", "lo"}}).loopback);
}

}  // namespace tutti::testing
