// The protocol, byte by byte, as both sides put it on the wire. The bytes are written down here once and for all: what
// changes them breaks programs that use PyTorch's TCPStore.

#include "rendezvous/tcp_protocol.h"

#include <doctest/doctest.h>

#include "rendezvous/limits.h"
#include "rendezvous/tcp_server.h"
#include "tests/rendezvous/harness.h"

namespace tutti::testing {
namespace {

using rendezvous::TcpStoreServer;
using Keys = std::vector<std::string>;

struct Exchange {
  const char* what;
  const char* request;
  const char* answer;
};

constexpr const char* greeting = "00 ce f7 85 3c";

// In this order on one connection: later ones see what earlier ones stored.
constexpr Exchange exchanges[] = {
    {"validate", greeting, ""},
    {"ping", "0d 78 56 34 12", "78 56 34 12"},
    {"set /k = abc", "01 0200000000000000 2f6b 0300000000000000 616263", ""},
    {"get /k", "03 0200000000000000 2f6b", "0300000000000000 616263"},
    {"get /x, absent", "03 0200000000000000 2f78", "0000000000000000"},
    {"compare_set /k abc -> de", "02 0200000000000000 2f6b 0300000000000000 616263 0200000000000000 6465",
     "0200000000000000 6465"},
    {"compare_set /k, unequal", "02 0200000000000000 2f6b 0100000000000000 78 0100000000000000 79",
     "0200000000000000 6465"},
    {"compare_set /x, absent, expecting 78", "02 0200000000000000 2f78 0100000000000000 78 0100000000000000 79",
     "0100000000000000 78"},
    {"compare_set /e, absent, expecting nothing", "02 0200000000000000 2f65 0000000000000000 0100000000000000 79",
     "0100000000000000 79"},
    {"add /n 5", "04 0200000000000000 2f6e 0500000000000000", "0500000000000000"},
    {"add /n -7", "04 0200000000000000 2f6e f9ffffffffffffff", "feffffffffffffff"},
    {"get /n: decimal text", "03 0200000000000000 2f6e", "0200000000000000 2d32"},
    {"check /k /n: ready", "05 0200000000000000 0200000000000000 2f6b 0200000000000000 2f6e", "00"},
    {"check /k /x: not ready", "05 0200000000000000 0200000000000000 2f6b 0200000000000000 2f78", "01"},
    {"check of nothing: ready", "05 0000000000000000", "00"},
    {"wait /k: at once", "06 0100000000000000 0200000000000000 2f6b", "00"},
    {"wait for nothing: at once", "06 0000000000000000", "00"},
    {"key_count", "07", "0300000000000000"},
    {"erase /e", "08 0200000000000000 2f65", "0100000000000000"},
    {"erase /e again", "08 0200000000000000 2f65", "0000000000000000"},
    {"append /k f", "09 0200000000000000 2f6b 0100000000000000 66", ""},
    {"multi_get /n /k /x", "0a 0300000000000000 0200000000000000 2f6e 0200000000000000 2f6b 0200000000000000 2f78",
     "0200000000000000 2d32 0300000000000000 646566 0000000000000000"},
    {"multi_set /p = 1, /q = ",
     "0b 0200000000000000 0200000000000000 2f70 0100000000000000 31"
     " 0200000000000000 2f71 0000000000000000",
     ""},
    {"multi_get /q /p", "0a 0200000000000000 0200000000000000 2f71 0200000000000000 2f70",
     "0000000000000000 0100000000000000 31"},
    {"cancel_wait without a wait", "0c", "01"},
    {"queue_pop /u, empty", "0f 0200000000000000 2f75", "0000000000000000"},
    {"queue_push /u = ab", "0e 0200000000000000 2f75 0200000000000000 6162", ""},
    {"queue_push /u = c", "0e 0200000000000000 2f75 0100000000000000 63", ""},
    {"queue_len /u", "10 0200000000000000 2f75", "0200000000000000"},
    {"check /u: ready", "05 0100000000000000 0200000000000000 2f75", "00"},
    {"wait /u: at once", "06 0100000000000000 0200000000000000 2f75", "00"},
    {"queue_pop /u", "0f 0200000000000000 2f75", "0200000000000000 0200000000000000 6162"},
    {"queue_pop /u", "0f 0200000000000000 2f75", "0100000000000000 0100000000000000 63"},
    {"queue_len /u", "10 0200000000000000 2f75", "0000000000000000"},
    {"check /u: not ready", "05 0100000000000000 0200000000000000 2f75", "01"},
    {"list_keys: /k /n /p /q", "11",
     "0400000000000000 0200000000000000 2f6b 0200000000000000 2f6e 0200000000000000 2f70 0200000000000000 2f71"},
    {"barrier /b of 1", "12 0200000000000000 2f62 0100000000000000", "00"},
    {"get /b: how many came", "03 0200000000000000 2f62", "0100000000000000 31"},
};

std::string answers_expected() {
  std::string all;
  for (const Exchange& exchange : exchanges) all += bytes(exchange.answer);
  return all;
}

}  // namespace

TEST_CASE("the server answers every operation with the bytes of PyTorch's protocol") {
  const TcpStoreServer server{{"127.0.0.1", 0}};
  RawClient client{server.endpoint()};
  for (const Exchange& exchange : exchanges) {
    CAPTURE(exchange.what);
    client.send(bytes(exchange.request));
    const std::string expected = bytes(exchange.answer);
    CHECK(hex(client.recv(expected.size())) == hex(expected));
  }
  client.send(bytes("0d 00 00 00 00"));  // nothing more came than was expected
  CHECK(hex(client.recv(4)) == "00 00 00 00");
}

TEST_CASE("requests may come in pieces of any size, or all at once") {
  std::string stream;
  for (const Exchange& exchange : exchanges) stream += bytes(exchange.request);
  const std::string expected = answers_expected();
  for (const std::size_t piece : {std::size_t{1}, std::size_t{2}, std::size_t{3}, std::size_t{7}, stream.size()}) {
    CAPTURE(piece);
    const TcpStoreServer server{{"127.0.0.1", 0}};
    RawClient client{server.endpoint()};
    for (std::size_t at = 0; at < stream.size(); at += piece) client.send(stream.substr(at, piece));
    CHECK(hex(client.recv(expected.size())) == hex(expected));
  }
}

TEST_CASE("a wait is answered once all its keys came, whoever sets them") {
  const TcpStoreServer server{{"127.0.0.1", 0}};
  RawClient waiter{server.endpoint()};
  RawClient setter{server.endpoint()};
  waiter.send(bytes("00 ce f7 85 3c  06 0200000000000000 0200000000000000 2f61 0200000000000000 2f62"));
  setter.send(bytes("00 ce f7 85 3c  01 0200000000000000 2f61 0000000000000000"));
  setter.send(bytes("07"));
  CHECK(hex(setter.recv(8)) == hex(bytes("0100000000000000")));
  CHECK(waiter.is_silent());
  setter.send(bytes("04 0200000000000000 2f62 0100000000000000"));
  CHECK(hex(waiter.recv(1)) == "00");
}

TEST_CASE("a wait that is taken back ends, and the connection serves on") {
  const TcpStoreServer server{{"127.0.0.1", 0}};
  RawClient client{server.endpoint()};
  client.send(bytes("00 ce f7 85 3c  06 0100000000000000 0200000000000000 2f61"));
  client.send(bytes("0c"));
  CHECK(hex(client.recv(1)) == "01");
  client.send(bytes("01 0200000000000000 2f61 0000000000000000  07"));
  CHECK(hex(client.recv(8)) == hex(bytes("0100000000000000")));  // and no 00 of the wait before it
}

TEST_CASE("a key that comes just before the wait is taken back is answered for both: 00, then 01") {
  const TcpStoreServer server{{"127.0.0.1", 0}};
  RawClient waiter{server.endpoint()};
  waiter.send(bytes("00 ce f7 85 3c  06 0100000000000000 0200000000000000 2f61"));
  RawClient setter{server.endpoint()};
  setter.send(bytes("00 ce f7 85 3c  01 0200000000000000 2f61 0000000000000000  07"));
  setter.recv(8);
  waiter.send(bytes("0c"));
  CHECK(hex(waiter.recv(2)) == "00 01");
}

TEST_CASE("an operation nobody knows, a wrong greeting and a request during a wait end the connection") {
  const TcpStoreServer server{{"127.0.0.1", 0}};
  const char* wrong[] = {
      "01 0200000000000000 2f6b 0000000000000000",  // no greeting
      "00 00 00 00 00",
      "00 ce f7 85 3d",  // another magic
      "80",
      "47 45 54 20 2f",
      "16 03 01 02 00",  // ours to come, HTTP, TLS
      "00 ce f7 85 3c 13",
      "00 ce f7 85 3c 7f",
      "00 ce f7 85 3c 80",
      "00 ce f7 85 3c ff",
      "00 ce f7 85 3c 00 00 00 00 00",                              // a second, wrong greeting
      "00 ce f7 85 3c 06 0100000000000000 0100000000000000 61 07",  // key_count during a wait
      "00 ce f7 85 3c 01 0100000000000000 61 0100000000000000 78 04 0100000000000000 61 0100000000000000",  // "x" + 1
  };
  for (const char* request : wrong) {
    CAPTURE(request);
    RawClient client{server.endpoint()};
    client.send(bytes(request));
    CHECK(client.is_closed());
  }
  RawClient twice{server.endpoint()};
  twice.send(bytes("00 ce f7 85 3c 00 ce f7 85 3c 07"));
  CHECK(twice.recv(8).size() == 8);
}

// ---- The client, before a server that only writes down what comes and answers from a script.

namespace {

/// Answers each request of `script` when exactly its bytes have come, and notes what came instead otherwise.
class ScriptedServer {
 public:
  struct Line {
    std::string request;
    std::string answer;
  };

  explicit ScriptedServer(std::vector<Line> script)
      : listener_(std::move(rendezvous::listen_on({"127.0.0.1", 0}, Clock::now() + patience).front())),
        thread_([this, script = std::move(script)] { run(script); }) {}
  ~ScriptedServer() { thread_.join(); }
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  std::shared_ptr<Store> connect() {
    const auto endpoint = rendezvous::endpoint_of(net::local_address(listener_));
    return tcp_store(endpoint.host, endpoint.port, patience);
  }

 private:
  void run(const std::vector<Line>& script) {
    int accepted = -1;
    eventually([&] { return (accepted = ::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK)) >= 0; });
    RawClient peer{Descriptor{accepted}};
    for (const Line& line : script) {
      const std::string expected = bytes(line.request);
      CHECK(hex(peer.recv(expected.size())) == hex(expected));
      peer.send(bytes(line.answer));
    }
  }

  Descriptor listener_;
  std::thread thread_;
};

}  // namespace

TEST_CASE("the client sends for each operation the bytes of PyTorch's protocol, and no ping") {
  ScriptedServer server{{
      {greeting, ""},
      {"01 0200000000000000 2f6b 0300000000000000 616263", ""},
      {"06 0100000000000000 0200000000000000 2f6b", "00"},
      {"03 0200000000000000 2f6b", "0300000000000000 616263"},
      {"04 0200000000000000 2f6e f9ffffffffffffff", "feffffffffffffff"},
      {"02 0200000000000000 2f6b 0100000000000000 78 0100000000000000 79", "0100000000000000 7a"},
      {"05 0200000000000000 0200000000000000 2f61 0200000000000000 2f62", "01"},
      {"06 0200000000000000 0200000000000000 2f61 0200000000000000 2f62", "00"},
      {"0a 0200000000000000 0200000000000000 2f61 0200000000000000 2f62", "0100000000000000 31 0000000000000000"},
      {"07", "0900000000000000"},
      {"08 0200000000000000 2f6b", "0100000000000000"},
      {"09 0200000000000000 2f6b 0100000000000000 66", ""},
      {"0b 0200000000000000 0200000000000000 2f70 0100000000000000 31 0200000000000000 2f71 0000000000000000", ""},
  }};
  const auto store = server.connect();
  store->set("k", "abc");
  CHECK(store->get("k") == "abc");
  CHECK(store->add("n", -7) == -2);
  CHECK(store->compare_set("k", "x", "y") == "z");
  CHECK_FALSE(store->check(Keys{"a", "b"}));
  CHECK(store->multi_get(Keys{"a", "b"}) == Keys{"1", ""});
  CHECK(store->key_count() == 9);
  CHECK(store->erase("k"));
  store->append("k", "f");
  store->multi_set(std::vector<Store::KeyValue>{{"p", "1"}, {"q", ""}});
}

TEST_CASE("a wait in vain is taken back, and the connection is good for the next request") {
  ScriptedServer server{{
      {greeting, ""},
      {"06 0100000000000000 0200000000000000 2f6b", ""},
      {"0c", "01"},
      {"07", "0200000000000000"},
  }};
  const auto store = server.connect();
  CHECK(error_of([&] { store->wait_for(Keys{"k"}, 20ms); }).code() == ErrorCode::rendezvous);
  CHECK(store->key_count() == 2);
}

TEST_CASE("a key that comes while the wait is being taken back counts as come") {
  ScriptedServer server{{
      {greeting, ""},
      {"06 0100000000000000 0200000000000000 2f6b", ""},
      {"0c", "00 01"},
      {"07", "0200000000000000"},
  }};
  const auto store = server.connect();
  CHECK_NOTHROW(store->wait_for(Keys{"k"}, 20ms));
  CHECK(store->key_count() == 2);
}

TEST_CASE("a server that speaks nonsense, or announces far too much, is given up with a message, for good") {
  for (const auto& [request, answer] : {std::pair{"06 0100000000000000 0200000000000000 2f6b", "07"},
                                        std::pair{"06 0100000000000000 0200000000000000 2f6b", "01"}}) {
    ScriptedServer server{{{greeting, ""}, {request, answer}}};
    const auto store = server.connect();
    CHECK(contains(error_of([&] { store->wait(Keys{"k"}); }).what(), "protocol"));
    CHECK(contains(error_of([&] { store->key_count(); }).what(), "protocol"));
  }
  ScriptedServer server{
      {{greeting, ""}, {"02 0200000000000000 2f6b 0000000000000000 0000000000000000", "ffffffffffffffff"}}};
  const auto store = server.connect();
  CHECK(contains(error_of([&] { store->compare_set("k", "", ""); }).what(), "18446744073709551615"));
}

TEST_CASE("a server that goes away, and one that does not answer, end the call with a message") {
  {
    ScriptedServer server{{{greeting, ""}, {"07", "02"}}};  // a part of the answer, then the end
    const auto store = server.connect();
    CHECK(contains(error_of([&] { store->key_count(); }).what(), "closed the connection"));
  }
  const auto mute = std::move(rendezvous::listen_on({"127.0.0.1", 0}, Clock::now() + patience).front());
  const auto endpoint = rendezvous::endpoint_of(net::local_address(mute));
  const auto store = tcp_store(endpoint.host, endpoint.port, patience);
  store->set_timeout(30ms);
  const auto begin = Clock::now();
  CHECK(contains(error_of([&] { store->key_count(); }).what(), "does not answer"));
  CHECK(Clock::now() - begin < patience / 2);
  CHECK(contains(error_of([&] { store->set("k", "v"); }).what(), "does not answer"));
}

TEST_CASE("more keys than one request may carry go in several") {
  const TcpStoreServer server{{"127.0.0.1", 0}};
  const auto store = tcp_store(server.endpoint().host, server.endpoint().port, patience);
  std::vector<Store::KeyValue> pairs;
  Keys keys;
  for (std::size_t i = 0; i < 131'073; ++i) {
    keys.push_back(std::to_string(i));
    pairs.emplace_back(keys.back(), "v" + keys.back());
  }
  store->multi_set(pairs);
  CHECK(store->check(keys));
  const auto values = store->multi_get(keys);
  CHECK(values.size() == keys.size());
  CHECK(values.back() == "v131072");
  CHECK(server.figures().requests == 2 + 2 + 2 + 2);  // multi_set, check, and of multi_get the wait and the read
}

TEST_CASE("a client keeps trying until the server is there") {
  rendezvous::Endpoint endpoint;
  {
    const TcpStoreServer first{{"127.0.0.1", 0}};
    endpoint = first.endpoint();
  }
  run_threads(2, [&](int i) {
    if (i == 0) {
      CHECK(tcp_store(endpoint.host, endpoint.port, patience)->key_count() == 0);
      return;
    }
    CHECK_THROWS_AS(tcp_store(endpoint.host, endpoint.port, 10ms),
                    Error);  // by then the other one has been refused too
    const TcpStoreServer server{endpoint};
    CHECK(eventually([&] { return server.figures().requests > 0; }));
  });
}

TEST_CASE("nobody there: the error names host, port, reason and remedy, in time") {
  rendezvous::Endpoint endpoint;
  {
    const TcpStoreServer first{{"127.0.0.1", 0}};
    endpoint = first.endpoint();
  }
  const auto begin = Clock::now();
  const Error error =
      error_of([&] { tcp_store(endpoint.host, endpoint.port, 1s); });  // a busy machine takes a while to refuse
  CHECK(Clock::now() - begin < patience / 2);
  CHECK(error.code() == ErrorCode::rendezvous);
  CHECK(contains(error.what(), to_string(endpoint)));
  CHECK(contains(error.what(), "refused (errno 111)"));
  CHECK(contains(error.what(), "Check that"));
  CHECK(contains(error_of([&] { tcp_store("no-such-host.invalid", 1, 100ms); }).what(), "no-such-host.invalid"));
}

TEST_CASE("the longest key that is taken is taken by the server too") {
  const TcpStoreServer server{{"127.0.0.1", 0}};
  const auto store = tcp_store(server.endpoint().host, server.endpoint().port, patience);
  const std::string longest(rendezvous::max_key_bytes - 1, 'k');
  store->set(longest, "value");
  CHECK(store->get(longest) == "value");
  const Error error = error_of([&] { store->set(longest + "k", "value"); });
  CHECK(error.code() == ErrorCode::invalid_argument);
  CHECK(contains(error.what(), "at most 8191"));
  CHECK(store->get(longest) == "value");  // the connection is as it was
}

TEST_CASE("names, IPv4 and IPv6 addresses, with or without brackets, all lead to the server") {
  const TcpStoreServer v4{{"127.0.0.1", 0}};
  CHECK(tcp_store("localhost", v4.endpoint().port, patience)->key_count() == 0);
  std::optional<TcpStoreServer> v6;
  if (error_of([&] { v6.emplace(rendezvous::Endpoint{"::1", 0}); }).code() == ErrorCode::rendezvous) {
    MESSAGE("no IPv6 on this host");
    return;
  }
  CHECK(v6->endpoint().host == "::1");
  CHECK(to_string(v6->endpoint()).starts_with("[::1]:"));
  CHECK(tcp_store("::1", v6->endpoint().port, patience)->key_count() == 0);
  CHECK(tcp_store("[::1]", v6->endpoint().port, patience)->key_count() == 0);
}

}  // namespace tutti::testing
