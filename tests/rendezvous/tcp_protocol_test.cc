// The protocol, byte by byte, as the server speaks it. The bytes are written down here once and for all: what changes
// them breaks programs that use PyTorch's TCPStore.

#include "rendezvous/tcp_protocol.h"

#include <doctest/doctest.h>

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

// In this order on one connection: later ones see what earlier ones stored.
constexpr Exchange exchanges[] = {
    {"validate", greeting_in_hex, ""},
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

}  // namespace tutti::testing
