// What is special about TCP: strangers, addresses, refused connections, and the bytes on the wire. What every
// transport must do is in conformance_test.cc and endings_test.cc.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstring>
#include <thread>

#include "tests/transport/mesh.h"
#include "tests/transport/raw_peer.h"
#include "transport/tcp/socket.h"
#include "transport/tcp/tcp_transport.h"

namespace tutti::transport::testing {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t mebibyte = std::size_t{1} << 20;
const std::string token = "sixteen letters.";
const std::string other_token = "sixteen letters!";

std::unique_ptr<Node> make_node(int rank, TcpOptions options = {}) {
  auto node = std::make_unique<Node>();
  node->rank = rank;
  if (options.token.empty()) options.token = token;
  node->transport = std::make_unique<TcpTransport>(rank, options, node->reactor);
  node->transport->set_sink(node->recorder);
  return node;
}

/// Rank 0 sends, rank 1 receives; both are driven by one thread.
struct Pair {
  explicit Pair(const TcpOptions& options = {}) : sender(make_node(0, options)), receiver(make_node(1, options)) {
    const std::vector<std::string> addresses = {sender->transport->address(), receiver->transport->address()};
    sender->transport->set_peers(addresses);
    receiver->transport->set_peers(addresses);
  }

  bool run_until(const std::function<bool()>& done, std::chrono::seconds patience = 30s) {
    for (const auto deadline = Clock::now() + patience; !done();) {
      if (Clock::now() >= deadline) return false;
      sender->step();
      receiver->step();
    }
    return true;
  }
  /// One message from 0 to 1, checked.
  bool exchange(std::size_t size, std::uint64_t seed) {
    const std::size_t before = receiver->recorder.messages.size();
    sender->send(1, 1, size, seed);
    return run_until([&] { return receiver->recorder.messages.size() > before; }) &&
           receiver->recorder.messages.back().bytes == pattern(size, seed);
  }
  std::size_t strangers() const { return static_cast<TcpTransport&>(*receiver->transport).strangers(); }
  std::string door() const { return receiver->transport->address(); }

  std::unique_ptr<Node> sender;
  std::unique_ptr<Node> receiver;
};

/// One rank whose peer, rank 0, is written out in bytes.
struct Lonely {
  explicit Lonely(const TcpOptions& options = {}) : node(make_node(1, options)) {
    node->transport->set_peers({"127.0.0.1:1", node->transport->address()});
  }
  bool run_until(const std::function<bool()>& done) {
    for (const auto deadline = Clock::now() + 30s; !done(); node->step())
      if (Clock::now() >= deadline) return false;
    return true;
  }
  RawPeer connect(std::string_view bytes) { return RawPeer(node->transport->address(), bytes); }

  std::unique_ptr<Node> node;
};

std::string hello(int from = 0, int to = 1, Channel channel = 1, const std::string& with_token = token) {
  JobToken job;
  std::memcpy(job.data(), with_token.data(), job.size());
  return text_of(encode(Hello{.from = from, .to = to, .channel = channel}, job));
}

}  // namespace

TEST_CASE("addresses are numeric with a port, in brackets for IPv6") {
  for (const char* good : {"127.0.0.1:80", "[::1]:65535", "[fe80::1]:1", "0.0.0.0:4242"})
    CHECK_MESSAGE(tcp::parse_address(good), good);
  for (const char* bad : {"", ":", "localhost:80", "127.0.0.1", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536",
                          "::1:80", "[::1]", "[]:80", "127.0.0.1:80x", "127.0.0.1:-1", "[127.0.0.1:80"})
    CHECK_FALSE_MESSAGE(tcp::parse_address(bad), bad);
  CHECK(tcp::parse_address("127.0.0.9:80")->loopback);
  CHECK_FALSE(tcp::parse_address("10.0.0.1:80")->loopback);
}

TEST_CASE("options that cannot work are refused with a reason") {
  const auto code_of = [](const TcpOptions& options) {
    Reactor reactor;
    try {
      TcpTransport transport(0, options, reactor);
    } catch (const Error& error) {
      return std::string(name_of(error.code()));
    }
    return std::string("none");
  };
  CHECK(code_of({.token = token}) == "none");
  CHECK(code_of({.token = "short"}) == "invalid_argument");
  CHECK(code_of({.bind_address = "localhost", .token = token}) == "invalid_argument");
  CHECK(code_of({.bind_address = "192.0.2.1", .token = token}) == "system");  // nobody has that one
}

TEST_CASE("what a rank sends is what docs/wire.md says") {
  RawListener listener;
  const auto node = make_node(0);
  node->transport->set_peers({node->transport->address(), listener.address()});
  const Frame frame{.kind = FrameKind::eager, .operation = 7, .root = 3, .length = 5};
  const std::string payload = "tutti";
  bool sent = node->transport->open(1, 0x1122334455667788).send(frame, std::as_bytes(std::span(payload)), 1);
  for (int i = 0; i < 1000 && !sent; ++i) {
    node->step();
    sent = !node->recorder.tokens.empty();
  }
  CHECK(sent);

  RawPeer peer = listener.accept();
  const std::string expected = hello(0, 1, 0x1122334455667788) + text_of(encode(frame)) + payload;
  CHECK(peer.read(expected.size()) == expected);
  CHECK(expected.substr(0, 8) == std::string("TUTI\1\0\0\0", 8));
}

TEST_CASE("strangers do not disturb ranks that talk, and get no answer") {
  Pair pair;
  REQUIRE(pair.exchange(100, 1));
  const std::string good = hello(0, 1, 99);
  const std::vector<std::string> greetings = {
      "GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: curl\r\n\r\n",
      std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + std::string(600, '\x5a'),  // TLS
      std::string(hello_size, '\0'),
      text_of(pattern(mebibyte, 3)),
      hello(0, 1, 99, other_token),
      hello(0, 0, 99),  // for another rank
      hello(2, 1, 99),  // from a rank that does not exist
      hello(-1, 1, 99),
      std::string(4, 'T') + good.substr(4),      // another magic
      good.substr(0, 4) + "\2" + good.substr(5)  // another version
  };
  std::uint64_t seed = 10;
  for (const std::string& greeting : greetings) {
    CAPTURE(greeting.substr(0, 40));
    RawPeer stranger(pair.door(), greeting);
    CHECK(pair.exchange(mebibyte + seed, seed));
    CHECK(pair.run_until([&] { return stranger.closed_by_peer(); }));
    CHECK(stranger.heard().empty());
    ++seed;
  }
  for (int i = 0; i < 20; ++i) {
    RawPeer(pair.door(), good.substr(0, 39));  // connects, says almost enough, and goes
    RawPeer(pair.door(), "");
    CHECK(pair.exchange(1000, seed++));
  }
  CHECK(pair.run_until([&] { return pair.strangers() == 0; }));
  CHECK(pair.receiver->recorder.failures.empty());
  CHECK(pair.sender->recorder.failures.empty());
  for (const auto& message : pair.receiver->recorder.messages) CHECK(message.channel == 1);
}

TEST_CASE("a stranger that says nothing, or half of a hello, is shown out in time") {
  Pair pair({.hello_timeout = 100ms});
  RawPeer silent(pair.door(), "");
  RawPeer half(pair.door(), hello().substr(0, 20));
  REQUIRE(pair.run_until([&] { return pair.strangers() == 2; }));
  CHECK(pair.run_until([&] { return silent.closed_by_peer() && half.closed_by_peer(); }));
  CHECK(pair.strangers() == 0);
  CHECK(pair.exchange(100, 1));
}

TEST_CASE("a rank that sleeps shows strangers out, too") {
  Lonely lonely({.hello_timeout = 100ms});
  RawPeer silent = lonely.connect("");
  CHECK(lonely.node->sleep_until([&] { return silent.closed_by_peer(); }));
}

TEST_CASE("two hundred silent connections leave room for a peer") {
  Pair pair({.hello_timeout = 2500ms});
  std::vector<RawPeer> crowd;
  for (int i = 0; i < 200; ++i) crowd.emplace_back(pair.door(), "");
  REQUIRE(pair.run_until([&] { return pair.strangers() == 128; }));
  const auto start = Clock::now();
  CHECK(pair.exchange(100'001, 1));
  CHECK(Clock::now() - start < 2000ms);  // the oldest had to go after a fifth of their time
  CHECK(pair.strangers() <= 128);
}

TEST_CASE("three hundred peers that connect first and speak later are all let in at once") {
  Lonely lonely({.hello_timeout = 100s});
  constexpr int count = 300;
  std::vector<RawPeer> peers;
  for (int i = 0; i < count; ++i) peers.push_back(lonely.connect(""));
  REQUIRE(lonely.run_until([&] { return static_cast<TcpTransport&>(*lonely.node->transport).strangers() == 128; }));
  for (int i = 0; i < count; ++i)
    peers[static_cast<std::size_t>(i)].write(hello(0, 1, static_cast<Channel>(i)) +
                                             text_of(encode(Frame{.length = 4})) + "four");
  const auto start = Clock::now();
  CHECK(lonely.run_until([&] { return lonely.node->recorder.messages.size() == count; }));
  CHECK(Clock::now() - start < 10s);
  CHECK(lonely.node->recorder.failures.empty());
}

TEST_CASE("a hello, a frame and a payload that come byte by byte are understood") {
  Lonely lonely;
  RawPeer peer = lonely.connect("");
  for (const char byte : hello() + text_of(encode(Frame{.operation = 5, .length = 3})) + "abc") {
    peer.write({&byte, 1});
    for (int i = 0; i < 3; ++i) lonely.node->step();
  }
  CHECK(lonely.run_until([&] { return lonely.node->recorder.messages.size() == 1; }));
  CHECK(lonely.node->recorder.messages[0].frame.operation == 5);
  CHECK(text_of(lonely.node->recorder.messages[0].bytes) == "abc");
}

TEST_CASE("views that come in awkward pieces keep their promises") {
  Lonely lonely;
  Recorder& recorder = lonely.node->recorder;
  recorder.decide = [](Link&, const Frame&) { return Acceptance::Kind::views; };
  RawPeer peer = lonely.connect(hello());
  std::string stream;
  const std::vector<std::size_t> sizes = {1, 63, 64, 65, 8191, 8192, 8193, 131'072, 131'073, 400'001, 0, 17};
  for (const std::size_t size : sizes) stream += text_of(encode(Frame{.length = size})) + text_of(pattern(size, size));
  for (std::size_t at = 0, piece = 1; at < stream.size(); at += piece, piece = piece * 5 % 65521 + 1) {
    peer.write(std::string_view(stream).substr(at, piece));
    lonely.node->step();
  }
  REQUIRE(lonely.run_until([&] { return recorder.messages.size() == sizes.size(); }));
  for (std::size_t i = 0; i < sizes.size(); ++i) CHECK(recorder.messages[i].bytes == pattern(sizes[i], sizes[i]));
  CHECK(recorder.broken == "");
}

TEST_CASE("bytes that are no frame end the link as a mismatch that names the peer") {
  for (const std::string& garbage :
       {std::string(40, 'x'), text_of(encode(Frame{.kind = FrameKind::abort, .length = max_reason + 1}))}) {
    Lonely lonely;
    RawPeer peer = lonely.connect(hello() + text_of(encode(Frame{})) + garbage);
    REQUIRE(lonely.run_until([&] { return !lonely.node->recorder.failures.empty(); }));
    CHECK(lonely.node->recorder.messages.size() == 1);
    CHECK(lonely.node->recorder.failures[0].code == ErrorCode::mismatch);
    CHECK(lonely.node->recorder.failures[0].rank == 0);
  }
}

TEST_CASE("an abort on another connection explains the end of the first one") {
  Lonely lonely;
  const Error reason(ErrorCode::timeout, "rank 3 is late", 3, 9);
  {
    RawPeer first = lonely.connect(hello() + text_of(encode(Frame{})));
    REQUIRE(lonely.run_until([&] { return lonely.node->recorder.messages.size() == 1; }));
    RawPeer courier = lonely.connect(hello() + text_of(abort_message(reason)));
  }
  for (int i = 0; i < 100; ++i) lonely.node->transport->progress();
  REQUIRE(lonely.node->recorder.failures.size() == 1);
  CHECK(lonely.node->recorder.failures[0].code == ErrorCode::timeout);
  CHECK(lonely.node->recorder.failures[0].rank == 3);
  CHECK(lonely.node->recorder.failures[0].text == "rank 3 is late");
}

TEST_CASE("an abort that comes backwards explains why a message could not be sent") {
  RawListener listener;
  const auto node = make_node(0);
  node->transport->set_peers({node->transport->address(), listener.address()});
  node->send(1, 1, 64 * mebibyte, 1);
  for (int i = 0; i < 100; ++i) node->step();
  {
    RawPeer peer = listener.accept();
    peer.write(text_of(abort_message(Error(ErrorCode::mismatch, "rank 5 called something else", 5, 2))));
  }  // closes with megabytes unread: a reset
  for (int i = 0; i < 10'000 && node->recorder.failures.empty(); ++i) node->transport->progress();
  REQUIRE(node->recorder.failures.size() == 1);
  CHECK(node->recorder.failures[0].text == "rank 5 called something else");
  CHECK(node->recorder.failures[0].rank == 5);
}

TEST_CASE("a bye that comes backwards is a failure when there is more to send") {
  RawListener listener;
  const auto node = make_node(0);
  node->transport->set_peers({node->transport->address(), listener.address()});
  node->send(1, 1, 64 * mebibyte, 1);
  for (int i = 0; i < 100; ++i) node->step();
  RawPeer peer = listener.accept();
  peer.write(text_of(encode(Frame{.kind = FrameKind::bye})));
  for (const auto deadline = Clock::now() + 10s; node->recorder.failures.empty() && Clock::now() < deadline;)
    node->step();
  REQUIRE(node->recorder.failures.size() == 1);
  CHECK(node->recorder.failures[0].code == ErrorCode::peer_lost);
  CHECK(node->recorder.failures[0].text.find("closed its communicator") != std::string::npos);
}

TEST_CASE("a peer that does not listen yet is tried again, also by a rank that sleeps") {
  RawListener listener(RawListener::Start::later);
  const auto node = make_node(0);
  node->transport->set_peers({node->transport->address(), listener.address()});
  node->send(1, 1, 100, 1);
  for (int i = 0; i < 100; ++i) node->step();
  CHECK(node->recorder.tokens.empty());
  CHECK(node->recorder.failures.empty());
  std::thread opener([&] { listener.start(); });
  CHECK(node->sleep_until([&] { return !node->recorder.tokens.empty(); }));
  opener.join();
  CHECK(listener.accept().read(hello_size) == hello(0, 1, 1));
}

TEST_CASE("a peer that stays away is reported in time, with its address") {
  RawListener nobody(RawListener::Start::later);
  const auto node = make_node(0, {.connect_timeout = 150ms});
  node->transport->set_peers({node->transport->address(), nobody.address()});
  const auto start = Clock::now();
  node->send(1, 1, 100, 1);
  CHECK(node->sleep_until([&] { return !node->recorder.failures.empty(); }));
  CHECK(Clock::now() - start >= 150ms);
  CHECK(Clock::now() - start < 10s);
  REQUIRE(node->recorder.failures.size() == 1);
  CHECK(node->recorder.failures[0].code == ErrorCode::peer_lost);
  CHECK(node->recorder.failures[0].rank == 1);
  CHECK(node->recorder.failures[0].text.find(nobody.address()) != std::string::npos);
  CHECK(node->recorder.failures[0].text.find("Connection refused") != std::string::npos);
}

TEST_CASE("ranks talk over IPv6 loopback") {
  Reactor reactor;
  try {
    const TcpTransport probe(0, {.bind_address = "::1", .token = token}, reactor);
  } catch (const Error& error) {
    MESSAGE("skipped, this host has no IPv6 loopback: ", error.what());
    return;
  }
  Pair pair({.bind_address = "::1"});
  CHECK(pair.door().substr(0, 6) == "[::1]:");
  CHECK(pair.exchange(3 * mebibyte + 1, 1));
}

TEST_CASE("a message larger than all buffers goes in pieces, and others queue behind it") {
  Pair pair;
  CHECK_FALSE(pair.sender->send(1, 1, 48 * mebibyte + 5, 1, 11));
  for (std::uint64_t i = 2; i < 200; ++i) CHECK_FALSE(pair.sender->send(1, 1, i, i, 10 + i));
  REQUIRE(pair.run_until([&] { return pair.receiver->recorder.messages.size() == 199; }));
  CHECK(pair.receiver->recorder.messages[0].bytes == pattern(48 * mebibyte + 5, 1));
  for (std::uint64_t i = 2; i < 200; ++i) CHECK(pair.receiver->recorder.messages[i - 1].bytes == pattern(i, i));
  REQUIRE(pair.run_until([&] { return pair.sender->recorder.tokens.size() == 199; }));
  for (std::size_t i = 0; i < 199; ++i) CHECK(pair.sender->recorder.tokens[i].second == 11 + i);
}

TEST_CASE("a congestion algorithm that the system does not have is no reason to fail") {
  for (const char* name : {"no-such-algorithm", "reno", "cubic"}) {
    Pair pair({.congestion = name});
    CHECK(pair.exchange(1000, 1));
  }
}

}  // namespace tutti::transport::testing
