// Queues and barriers of the TCP store's server: whom they wake.

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "rendezvous/tcp_server.h"
#include "tests/rendezvous/harness.h"

namespace tutti::testing {
namespace {

using rendezvous::TcpStoreServer;

}  // namespace

TEST_CASE("a pushed value ends one wait, whose client finds it, and a wait for more goes on") {
  const TcpStoreServer server{{"127.0.0.1", 0}};
  std::vector<std::unique_ptr<RawClient>> waiters;
  for (std::size_t i = 0; i < 3; ++i) {
    waiters.push_back(std::make_unique<RawClient>(server.endpoint()));
    waiters[i]->send(greeting() + bytes("06 0100000000000000 0200000000000000 2f75"));
  }
  CHECK(eventually([&] { return server.figures().requests == 3; }));
  RawClient pusher{server.endpoint()};
  for (std::size_t left = waiters.size(); left > 0; --left) {
    pusher.send(greeting() + bytes("0e 0200000000000000 2f75 0100000000000000 63  10 0200000000000000 2f75"));
    CHECK(hex(pusher.recv(8)) == hex(bytes("0100000000000000")));
    const auto is_woken = [](const auto& waiter) { return !waiter->is_silent(); };
    CHECK(eventually([&] { return std::ranges::any_of(waiters, is_woken); }));
    CHECK(std::ranges::count_if(waiters, is_woken) == 1);
    const auto woken = std::ranges::find_if(waiters, is_woken);
    (*woken)->send(bytes("0f 0200000000000000 2f75"));
    CHECK(hex((*woken)->recv(18)) == hex(bytes("00 0100000000000000 0100000000000000 63")));
    waiters.erase(woken);
  }
}

TEST_CASE("a client that comes to a barrier waits for the others, or takes it back") {
  const TcpStoreServer server{{"127.0.0.1", 0}};
  const std::string arrive = bytes("12 0200000000000000 2f62 0300000000000000");
  RawClient first{server.endpoint()}, second{server.endpoint()}, third{server.endpoint()};
  first.send(greeting() + arrive);
  second.send(greeting() + arrive + bytes("0c 03 0200000000000000 2f62"));
  CHECK(hex(second.recv(1)) == "01");
  second.recv(9);
  CHECK(eventually([&] { return server.figures().requests == 4; }));
  CHECK(first.is_silent());
  third.send(greeting() + arrive);
  CHECK(hex(third.recv(1)) == "00");
  CHECK(hex(first.recv(1)) == "00");
  CHECK(second.is_silent());
}

}  // namespace tutti::testing
