// What strangers can do to the server: nothing that an honest client would notice.

#include "rendezvous/tcp_server.h"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "rendezvous/interfaces.h"
#include "rendezvous/tcp_protocol.h"
#include "tests/rendezvous/harness.h"
#include "tests/support/kept_alive.h"

namespace tutti::testing {
namespace {

using rendezvous::StoreMessage;
using rendezvous::StoreOp;
using rendezvous::TcpStoreServer;
using Keys = std::vector<std::string>;

std::shared_ptr<Store> connect(const TcpStoreServer& server) {
  return tcp_store(server.endpoint().host, server.endpoint().port, patience);
}

/// An honest client, who must be served whatever the others do.
void check_serves(const TcpStoreServer& server) {
  const auto store = connect(server);
  const std::int64_t before = store->add("honest", 1);
  CHECK(store->add("honest", 1) == before + 1);
  store->erase("honest");
}

}  // namespace

TEST_CASE("lengths are refused from one past the limit, before any of the bytes have come") {
  const TcpStoreServer server{any_port};
  const auto refused = [&](const std::string& request) {
    RawClient client{server.endpoint()};
    client.send(greeting() + request);
    return client.is_closed();
  };
  for (const std::uint64_t length :
       {std::uint64_t{8193}, std::uint64_t{1} << 31, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
    CAPTURE(length);
    CHECK(refused(StoreMessage{StoreOp::get}.u64(length).bytes()));
    CHECK(refused(StoreMessage{StoreOp::wait}.u64(1).u64(length).bytes()));
  }
  for (const std::uint64_t length : {(std::uint64_t{8} << 20) + 1, std::uint64_t{1} << 31, ~std::uint64_t{0}}) {
    CAPTURE(length);
    CHECK(refused(StoreMessage{StoreOp::set}.text("k").u64(length).bytes()));
    CHECK(refused(StoreMessage{StoreOp::compare_set}.text("k").text("").u64(length).bytes()));
    CHECK(refused(StoreMessage{StoreOp::multi_set}.u64(1).text("k").u64(length).bytes()));
  }
  for (const StoreOp op : {StoreOp::check, StoreOp::wait, StoreOp::multi_get, StoreOp::multi_set})
    for (const std::uint64_t count : {std::uint64_t{131'073}, std::uint64_t{1} << 61, ~std::uint64_t{0}})
      CHECK(refused(StoreMessage{op}.u64(count).bytes()));

  RawClient largest{server.endpoint()};
  largest.send(greeting() + StoreMessage{StoreOp::set}.text(std::string(8192, 'k')).text("v").bytes());
  largest.send(StoreMessage{StoreOp::key_count}.bytes());
  CHECK(largest.recv(8) == StoreMessage{}.u64(1).bytes());
}

TEST_CASE("memory is taken for bytes that came, not for bytes that were announced, and given back at the end") {
  const TcpStoreServer server{any_port};
  const std::size_t before = server.figures().memory_bytes;
  {
    std::vector<RawClient> clients;
    for (int i = 0; i < 20; ++i) {
      clients.emplace_back(server.endpoint());
      clients.back().send(greeting() + StoreMessage{StoreOp::set}.text("k").u64(8 << 20).bytes() +
                          std::string(1000, 'x'));
      clients.emplace_back(server.endpoint());
      clients.back().send(greeting() + StoreMessage{StoreOp::wait}.u64(131'072).u64(8192).bytes());
    }
    CHECK(eventually([&] { return server.figures().memory_bytes >= before + 20 * 1000; }));
    CHECK(server.figures().memory_bytes < before + 20 * 3000);
    check_serves(server);
  }
  CHECK(eventually([&] { return server.figures().connections == 0 && server.figures().memory_bytes == before; }));
}

TEST_CASE("a request and an answer beyond the limit of one message end the connection") {
  const TcpStoreServer server{any_port, {.message_bytes = 100'000}};
  const auto store = connect(server);
  for (int i = 0; i < 3; ++i) store->set(std::to_string(i), std::string(40'000, 'x'));
  CHECK(store->multi_get(Keys{"0", "1"}).size() == 2);
  CHECK(contains(error_of([&] { store->multi_get(Keys{"0", "1", "2"}); }).what(), "closed the connection"));
  const auto other = connect(server);
  other->multi_set(std::vector<Store::KeyValue>(3, {"k", std::string(40'000, 'x')}));
  CHECK(contains(error_of([&] { other->key_count(); }).what(), "closed the connection"));
  check_serves(server);
}

TEST_CASE("keys whose list is beyond the limit of an answer are not listed until some are erased") {
  constexpr std::size_t limit = 1000;
  const TcpStoreServer server{any_port, {.message_bytes = limit}};
  const auto store = connect(server);
  constexpr std::size_t each = sizeof(std::uint64_t) + 100;
  for (int i = 10; i < 19; ++i) store->set(std::to_string(i) + std::string(97, 'k'), "");
  CHECK(store->list_keys().size() == 9);
  store->set("limit" + std::string(limit - 9 * each - sizeof(std::uint64_t) - 6, 'k'), "");
  CHECK(store->list_keys().size() == 10);
  store->append("x", "");
  const Error error = error_of([&] { store->list_keys(); });
  CHECK(error.code() == ErrorCode::rendezvous);
  CHECK(contains(error.what(), "the names of all keys take 1010 bytes, more than the server sends"));
  CHECK(store->erase("x"));
  CHECK(store->list_keys().size() == 10);
}

TEST_CASE("values beyond the memory of all together are refused; what is there stays, and erasing makes room") {
  const TcpStoreServer server{any_port, {.total_bytes = 1'000'000}};
  const auto honest = connect(server);
  honest->set("mine", "1");
  int stored = 0;
  const Error error = error_of([&] {
    for (const auto greedy = connect(server);; ++stored) {
      greedy->set(std::to_string(stored), std::string(100'000, 'x'));
      greedy->key_count();
    }
  });
  CHECK(contains(error.what(), "closed the connection"));
  CHECK(stored >= 7);
  CHECK(stored <= 9);
  CHECK(server.figures().memory_bytes <= 1'000'000);
  CHECK(honest->get("mine") == "1");
  CHECK(honest->erase("0"));
  CHECK(honest->erase("1"));
  honest->set("again", std::string(100'000, 'x'));
  CHECK(honest->get("again").size() == 100'000);
}

TEST_CASE("waits count against the memory too, and end with their connection") {
  const TcpStoreServer server{any_port, {.total_bytes = 1'000'000}};
  Keys keys;
  for (int i = 0; i < 1000; ++i) keys.push_back(std::string(250, 'k') + std::to_string(i));
  StoreMessage wait{StoreOp::wait};
  wait.u64(keys.size());
  for (const std::string& key : keys) wait.text(key);
  const std::size_t before = server.figures().memory_bytes;
  {
    std::vector<RawClient> clients;
    for (int i = 0; i < 8; ++i) {
      clients.emplace_back(server.endpoint());
      clients.back().send(greeting() + wait.bytes());
    }
    // About 285 kB each: three fit.
    CHECK(eventually([&] {
      return std::count_if(clients.begin(), clients.end(), [](const RawClient& one) { return !one.is_silent(); }) == 5;
    }));
    CHECK(eventually([&] { return server.figures().connections == 3; }));
    check_serves(server);
  }
  CHECK(eventually([&] { return server.figures().connections == 0 && server.figures().memory_bytes == before; }));
}

TEST_CASE(
    "a client that does not read its answers blocks nobody, holds one answer at most, and is dropped in the end") {
  const TcpStoreServer server{any_port, {.stall = 2s}};  // enough for the honest one on a slow machine
  const auto honest = connect(server);
  honest->set("big", std::string(8 << 20, 'x'));
  CHECK(honest->check(Keys{"big"}));
  constexpr std::size_t one = (8 << 20) + 10'000;  // value, and a little for what is around it
  RawClient lazy{server.endpoint()};
  std::string requests = greeting();
  for (int i = 0; i < 50; ++i) requests += StoreMessage{StoreOp::get}.text("/big").bytes();
  lazy.send(requests);
  CHECK(eventually([&] { return server.figures().memory_bytes > one; }));
  check_serves(server);
  std::size_t most = 0;
  CHECK(eventually([&] {
    most = std::max(most, server.figures().memory_bytes);
    return server.figures().connections == 1 && server.figures().memory_bytes < one;
  }));
  CHECK(most < 2 * one);
}

TEST_CASE("a client that reads slowly gets all its answers in order") {
  const TcpStoreServer server{any_port};
  const auto store = connect(server);
  store->set("big", std::string(3'000'001, 'x'));
  CHECK(store->check(Keys{"big"}));
  RawClient client{server.endpoint()};
  std::string requests = greeting();
  for (int i = 0; i < 5; ++i)
    requests += StoreMessage{StoreOp::get}.text("/big").bytes() +
                StoreMessage{StoreOp::ping}.u32(static_cast<std::uint32_t>(i)).bytes();
  client.send(requests);
  for (std::uint32_t i = 0; i < 5; ++i) {
    CHECK(client.recv(8) == StoreMessage{}.u64(3'000'001).bytes());
    CHECK(client.recv(3'000'001) == std::string(3'000'001, 'x'));
    CHECK(client.recv(4) == StoreMessage{}.u32(i).bytes());
  }
}

TEST_CASE("half a request blocks nobody and costs its sender the connection; between requests one may idle") {
  const TcpStoreServer server{any_port, {.stall = 100ms}};
  RawClient half{server.endpoint()};
  RawClient idle{server.endpoint()};
  half.send(greeting() + bytes("01 0200"));
  idle.send(greeting());
  check_serves(server);
  CHECK(half.is_closed());
  CHECK(idle.is_silent());
  idle.send(bytes("07"));
  CHECK(idle.recv(8).size() == 8);
}

TEST_CASE("a client that does not say what it is is dropped in time") {
  const TcpStoreServer server{any_port, {.identify = 100ms}};
  RawClient brief{server.endpoint()};
  RawClient slow{server.endpoint()};
  brief.send(bytes("00"));
  slow.send(bytes("00 ce f7"));
  CHECK(brief.is_closed());
  CHECK(slow.is_closed());
  check_serves(server);
}

TEST_CASE("of many who do not say what they are the oldest go first, and honest clients come through") {
  const TcpStoreServer server{any_port, {.unidentified = 3, .grace = 5ms, .identify = patience}};
  std::vector<RawClient> strangers;
  for (int i = 0; i < 10; ++i) {
    strangers.emplace_back(server.endpoint());
    strangers.back().send(bytes("00"));
  }
  check_serves(server);
  CHECK(strangers[0].is_closed());
  CHECK(strangers[6].is_closed());
  CHECK(strangers[9].is_silent());
}

TEST_CASE("clients who say nothing cost nothing, and keep nobody waiting") {
  const TcpStoreServer server{any_port, {.unidentified = 3, .grace = patience, .identify = patience}};
  std::vector<RawClient> mute;
  for (int i = 0; i < 300; ++i) mute.emplace_back(server.endpoint());
  check_serves(server);
  CHECK(server.figures().connections <= 1);
}

TEST_CASE("honest clients who come all at once and are slow to speak are all served") {
  const TcpStoreServer server{any_port, {.unidentified = 3, .grace = patience, .identify = patience}};
  std::vector<RawClient> clients;
  for (int i = 0; i < 20; ++i) clients.emplace_back(server.endpoint());
  int served = 0;
  for (RawClient& client : clients) client.send(greeting() + bytes("07"));
  for (RawClient& client : clients) served += client.recv(8).size() == 8;
  CHECK(served == 20);
}

TEST_CASE("connections beyond the limit are closed, until others have left") {
  const TcpStoreServer server{any_port, {.connections = 2, .idle = patience}};
  std::optional<RawClient> first{server.endpoint()};
  RawClient second{server.endpoint()};
  first->send(greeting() + bytes("07"));
  second.send(greeting() + bytes("07"));
  CHECK(first->recv(8).size() == 8);
  CHECK(second.recv(8).size() == 8);
  RawClient third{server.endpoint()};
  third.send(greeting());
  CHECK(third.is_closed());
  first.reset();
  CHECK(eventually([&] { return server.figures().connections == 1; }));
  check_serves(server);
}

TEST_CASE("where all places are taken, the client that has been idle longest gives up its own") {
  const TcpStoreServer server{any_port, {.connections = 3, .idle = 0ms}};
  RawClient first{server.endpoint()}, second{server.endpoint()}, waiting{server.endpoint()};
  for (RawClient* client : {&first, &second}) {
    client->send(greeting() + bytes("07"));
    CHECK(client->recv(8).size() == 8);
  }
  waiting.send(greeting() + StoreMessage{StoreOp::wait}.u64(1).text("never").bytes());
  CHECK(eventually([&] { return server.figures().requests == 3; }));
  first.send(bytes("07"));
  CHECK(first.recv(8).size() == 8);
  check_serves(server);
  CHECK(second.is_closed());
  CHECK(waiting.is_silent());
}

TEST_CASE("clients that wait when the server ends hear of it at once") {
  auto server = std::make_unique<TcpStoreServer>(any_port);
  run_threads(3, [&](int i) {
    if (i < 2) {
      const auto store = connect(*server);
      CHECK(contains(error_of([&] { store->wait(Keys{"never"}); }).what(), "closed the connection"));
      return;
    }
    CHECK(eventually([&] { return server->figures().requests == 2; }));
    server.reset();
  });
}

TEST_CASE("the server listens on the address it was told, and on no other") {
  const TcpStoreServer server{any_port};
  CHECK(error_of([&] { tcp_store("127.0.0.2", server.endpoint().port, 50ms); }).code() == ErrorCode::rendezvous);
  CHECK(error_of([&] { tcp_store("::1", server.endpoint().port, 50ms); }).code() == ErrorCode::rendezvous);
  CHECK(server.is_on_loopback());
  const TcpStoreServer everywhere{{"0.0.0.0", 0}, {}, Clock::now() + patience, {.insecure = true}};
  CHECK_FALSE(everywhere.is_on_loopback());
}

TEST_CASE("under the name localhost the server listens on loopback of both families, with one port, and on no other") {
  const TcpStoreServer server{{"localhost", 0}};
  const std::uint16_t port = server.endpoint().port;
  CHECK(server.is_on_loopback());
  tcp_store("127.0.0.1", port, patience)->set("k", "v");
  CHECK(tcp_store("localhost", port, patience)->get("k") == "v");
  const auto all = rendezvous::interfaces();
  if (std::ranges::any_of(all, [](const rendezvous::Interface& one) { return one.up && one.address == "::1"; }))
    CHECK(tcp_store("::1", port, patience)->get("k") == "v");
  CHECK(error_of([&] { tcp_store("127.0.0.2", port, 50ms); }).code() == ErrorCode::rendezvous);
  CHECK(contains(error_of([&] { TcpStoreServer second{{"localhost", port}}; }).what(), "in use"));
  CHECK(contains(error_of([&] { TcpStoreServer second{{"127.0.0.1", port}}; }).what(), "in use"));
}

TEST_CASE("clients and server of a store ask for signs of life before a firewall forgets their connection") {
  const TcpStoreServer server{any_port};
  const auto store = tcp_store(server.endpoint().host, server.endpoint().port, patience);
  store->key_count();
  CHECK(connections_kept_alive() == 2);
}

TEST_CASE("a port in use is named, with who holds it; so is an address of another host") {
  const TcpStoreServer server{any_port};
  const Error taken = error_of([&] { TcpStoreServer second{server.endpoint()}; });
  CHECK(taken.code() == ErrorCode::rendezvous);
  CHECK(contains(taken.what(), to_string(server.endpoint())));
  CHECK(contains(taken.what(), "in use"));
  CHECK(contains(taken.what(), "process " + std::to_string(::getpid())));
  CHECK(contains(taken.what(), "store://"));
  const Error foreign = error_of([] { TcpStoreServer second{{"192.0.2.1", 0}}; });
  CHECK(contains(foreign.what(), "192.0.2.1"));
  CHECK(contains(foreign.what(), "no address of this host"));
  const Error unknown = error_of([] { TcpStoreServer{{"no-such-host.invalid", 0}, {}, Clock::now() + 50ms}; });
  CHECK(contains(unknown.what(), "no-such-host.invalid"));
}

TEST_CASE("hundreds of clients wait at once and all are woken") {
  const TcpStoreServer server{any_port};
  std::vector<RawClient> clients;
  for (int i = 0; i < 300; ++i) {
    clients.emplace_back(server.endpoint());
    clients.back().send(greeting() + StoreMessage{StoreOp::wait}.u64(2).text("/a").text("/b").bytes());
  }
  CHECK(eventually([&] { return server.figures().requests == 300; }));
  connect(server)->multi_set(std::vector<Store::KeyValue>{{"a", "1"}, {"b", "1"}});
  int woken = 0;
  for (RawClient& client : clients) woken += client.recv(1) == std::string(1, '\0');
  CHECK(woken == 300);
}

}  // namespace tutti::testing
