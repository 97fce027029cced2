// The client of a TCP store, byte by byte, before a server that only writes down what comes and answers from a script.

#include <doctest/doctest.h>

#include <optional>

#include "lib/base/wait_hook.h"
#include "rendezvous/limits.h"
#include "rendezvous/tcp_server.h"
#include "tests/rendezvous/harness.h"

namespace tutti::testing {
namespace {

using rendezvous::TcpStoreServer;
using Keys = std::vector<std::string>;

/// Answers each request of `script` when exactly its bytes have come, and notes what came instead otherwise.
class ScriptedServer {
 public:
  struct Line {
    std::string request;
    std::string answer;
  };

  explicit ScriptedServer(std::vector<Line> script)
      : listener_(listen_on(any_port)), thread_([this, script = std::move(script)] { run(script); }) {}
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
      {greeting_in_hex, ""},
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

TEST_CASE("the client's queues are those of PyTorch's server, which it asks for before the first push") {
  const std::string queue = "0200000000000000 2f71";
  ScriptedServer server{{
      {greeting_in_hex, ""},
      {"10 " + queue, "0000000000000000"},
      {"0e " + queue + " 0100000000000000 61", ""},
      {"0e " + queue + " 0000000000000000", ""},
      {"10 " + queue, "0200000000000000"},
      {"0f " + queue, "0200000000000000 0100000000000000 61"},
      {"11", "0300000000000000 0200000000000000 2f6b 0500000000000000 696e69742f 0100000000000000 2f"},
  }};
  const auto store = server.connect();
  store->queue_push("q", "a");
  store->queue_push("q", "");
  CHECK(store->queue_length("q") == 2);
  CHECK(store->queue_pop("q") == "a");
  CHECK(store->list_keys() == Keys{"k", ""});  // "init/" is PyTorch's own
}

TEST_CASE("a list of keys that the server does not send is refused in words, and the connection goes on") {
  ScriptedServer server{{{greeting_in_hex, ""}, {"11", "80e2d3fbffffffff"}, {"07", "0200000000000000"}}};
  const auto store = server.connect();
  const Error error = error_of([&] { store->list_keys(); });
  CHECK(error.code() == ErrorCode::rendezvous);
  CHECK(contains(error.what(), "list_keys: the names of all keys take 70000000 bytes, more than the server sends"));
  CHECK(contains(error.what(), "Erase the keys that nobody needs any more"));
  CHECK(store->key_count() == 2);
}

TEST_CASE("a value that another client takes first is waited for again") {
  const std::string pop = "0f 0200000000000000 2f71", none = "0000000000000000";
  const std::string wait = "06 0100000000000000 0200000000000000 2f71";
  ScriptedServer server{{
      {greeting_in_hex, ""},
      {pop, none},
      {wait, "00"},
      {pop, none},
      {pop, none},
      {wait, "00"},
      {pop, "0100000000000000 0100000000000000 62"},
  }};
  CHECK(server.connect()->queue_pop("q") == "b");
}

TEST_CASE("a server without queues, or that counts nonsense, is named") {
  {
    ScriptedServer server{{{greeting_in_hex, ""}, {"10 0200000000000000 2f71", ""}}};
    const auto store = server.connect();
    const Error error = error_of([&] { store->queue_push("q", "a"); });
    CHECK(error.code() == ErrorCode::rendezvous);
    CHECK(contains(error.what(), "queues (which PyTorch's servers have since 2.8, and only with libuv)"));
  }
  for (const auto& [request, answer] : {std::pair{"10 0200000000000000 2f71", "ffffffffffffffff"},
                                        std::pair{"0f 0200000000000000 2f71", "ffffffffffffffff"},
                                        std::pair{"11", "ffffffffffffff7f ffffffffffffff7f"}}) {
    ScriptedServer server{{{greeting_in_hex, ""}, {request, answer}}};
    const auto store = server.connect();
    const char* const wanted = "does it speak this protocol?";
    if (request[1] == '0') CHECK(contains(error_of([&] { store->queue_length("q"); }).what(), wanted));
    if (request[1] == 'f') CHECK(contains(error_of([&] { store->queue_pop("q"); }).what(), wanted));
    if (request[1] == '1') CHECK(contains(error_of([&] { store->list_keys(); }).what(), wanted));
  }
}

TEST_CASE("the program can interrupt a request that the server does not read, and the connection is not used again") {
  const Descriptor silent = listen_on(any_port);
  const auto endpoint = rendezvous::endpoint_of(net::local_address(silent));
  const auto store = tcp_store(endpoint.host, endpoint.port, patience);
  set_wait_hook({[](void*) -> std::int32_t { return 1; }, nullptr});
  const std::string value(rendezvous::max_value_bytes, 'v');
  std::optional<Error> error;
  for (int sets = 0; !error && sets < 16; ++sets) {  // until the kernel's buffers are full
    try {
      store->set("k", value);
    } catch (const Error& interrupted) {
      error = interrupted;
    }
  }
  set_wait_hook({});
  REQUIRE(error);
  CHECK(error->code() == ErrorCode::aborted);
  CHECK(contains(error->what(), "interrupted by the program"));
  CHECK(contains(error_of([&] { store->set("k", "v"); }).what(), "interrupted by the program"));
}

TEST_CASE("a wait in vain is taken back, and the connection is good for the next request") {
  ScriptedServer server{{
      {greeting_in_hex, ""},
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
      {greeting_in_hex, ""},
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
    ScriptedServer server{{{greeting_in_hex, ""}, {request, answer}}};
    const auto store = server.connect();
    CHECK(contains(error_of([&] { store->wait(Keys{"k"}); }).what(), "protocol"));
    CHECK(contains(error_of([&] { store->key_count(); }).what(), "protocol"));
  }
  ScriptedServer server{
      {{greeting_in_hex, ""}, {"02 0200000000000000 2f6b 0000000000000000 0000000000000000", "ffffffffffffffff"}}};
  const auto store = server.connect();
  CHECK(contains(error_of([&] { store->compare_set("k", "", ""); }).what(), "18446744073709551615"));
}

TEST_CASE("a server that goes away, and one that does not answer, end the call with a message") {
  {
    ScriptedServer server{{{greeting_in_hex, ""}, {"07", "02"}}};  // a part of the answer, then the end
    const auto store = server.connect();
    CHECK(contains(error_of([&] { store->key_count(); }).what(), "closed the connection"));
  }
  const auto mute = listen_on(any_port);
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

TEST_CASE("more bytes than one request may carry go in several") {
  const TcpStoreServer server{{"127.0.0.1", 0}, {.message_bytes = std::size_t{16} << 20}};
  const auto store = tcp_store(server.endpoint().host, server.endpoint().port, patience);
  std::vector<Store::KeyValue> pairs;
  Keys keys;
  for (int i = 0; i < 3; ++i) {
    keys.push_back(std::to_string(i) + std::string(rendezvous::max_key_bytes - 2, 'k'));
    pairs.emplace_back(keys.back(), std::string(rendezvous::max_value_bytes, 'v'));
  }
  store->multi_set(pairs);
  CHECK(store->check(keys));
  CHECK(server.figures().requests == 3 + 1);
  keys.resize(4096, keys.back());  // 32 MiB
  CHECK(store->check(keys));
  CHECK(contains(error_of([&] {
                   store->multi_get(Keys{keys[0], keys[1], keys[2]});
                 }).what(),
                 "at most 64 MiB together"));
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
