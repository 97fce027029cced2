// TCP alone: addresses, refused connections, and the bytes on the wire. acceptor_test.cc tests which connections are
// let in; conformance_test.cc and endings_test.cc test what every transport must do.

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <array>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/kept_alive.h"
#include "tests/support/sizes.h"
#include "tests/transport/tcp_pair.h"
#include "transport/hello.h"

namespace tutti::transport::testing {
namespace {

using namespace std::chrono_literals;

using tutti::testing::mebibyte;

/// The TCP connections of this process: descriptors.
std::vector<int> connections() {
  std::vector<int> found;
  for (int descriptor = 0; descriptor < 1024; ++descriptor) {
    tcp_info state{};
    socklen_t size = sizeof state;
    if (::getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &state, &size) == 0 && state.tcpi_state == TCP_ESTABLISHED)
      found.push_back(descriptor);
  }
  return found;
}

}  // namespace

TEST_CASE("addresses are numeric with a port, in brackets for IPv6") {
  for (const char* good : {"127.0.0.1:80", "[::1]:65535", "[fe80::1]:1", "0.0.0.0:4242"})
    CHECK_MESSAGE(net::parse_address(good), good);
  for (const char* bad : {"", ":", "localhost:80", "127.0.0.1", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536",
                          "::1:80", "[::1]", "[]:80", "127.0.0.1:80x", "127.0.0.1:-1", "[127.0.0.1:80"})
    CHECK_FALSE_MESSAGE(net::parse_address(bad), bad);
  CHECK(net::parse_address("127.0.0.9:80")->is_loopback());
  CHECK_FALSE(net::parse_address("10.0.0.1:80")->is_loopback());
}

TEST_CASE("an address may be the name of a Unix socket, as the kernel chooses them") {
  const net::Socket one = net::listen_at(net::any_unix_address(), 0s);
  const net::Socket other = net::listen_at(net::any_unix_address(), 0s);
  const net::Address address = net::local_address(one);
  CHECK(address.is_unix());
  CHECK(address.text() == "unix:" + address.name());
  REQUIRE(net::parse_address(address.text()));
  CHECK(*net::parse_address(address.text()) == address);
  CHECK_FALSE(net::local_address(other) == address);
  CHECK_FALSE(net::parse_address("127.0.0.1:80")->is_unix());
  const std::size_t longest = 107;
  CHECK(net::parse_address("unix:" + std::string(longest, 'f'))->name().size() == longest);
  for (const std::string& bad : {std::string{"unix:"}, std::string{"unix:/tmp/x"}, std::string{"unix:00 2f"},
                                 "unix:" + std::string(longest + 1, 'f')})
    CHECK_FALSE_MESSAGE(net::parse_address(bad), bad);

  const net::Socket caller = net::make_stream(AF_UNIX);
  CHECK(net::begin_connect(caller, address) == 0);
  CHECK(net::connected(caller) == 0);
  const net::Socket accepted = net::accept_next(one);
  REQUIRE(accepted);
  CHECK(net::user_of_peer(accepted) == static_cast<long>(::geteuid()));
  CHECK(net::process_of_peer(accepted) == ::getpid());
}

TEST_CASE("links ask for signs of life before a firewall forgets their connection") {
  for (const auto lost_after : {1'000ms, 10'000ms, 3'600'000ms}) {
    Pair pair({.lost_after = lost_after});
    CHECK(pair.exchange(100, 1));
    CHECK(tutti::testing::connections_kept_alive() >= 2);
  }
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
  CHECK(code_of({.key = key}) == "none");
  CHECK(code_of({.bind_address = "localhost", .key = key}) == "invalid_argument");
  CHECK(code_of({.bind_address = "192.0.2.1", .key = key}) == "system");  // nobody has that one
}

TEST_CASE("messages that come in awkward pieces are whole, expected or not, and views keep their promises") {
  const std::vector<std::size_t> sizes = {1,      63,      64,      65,      8191, 8192,   8193,
                                          20'000, 131'072, 131'073, 400'001, 0,    60'000, 17};
  for (const auto kind : {Acceptance::Kind::views, Acceptance::Kind::memory}) {
    for (const bool are_expected : {false, true}) {
      CAPTURE(static_cast<int>(kind));
      CAPTURE(are_expected);
      Lonely lonely;
      Recorder& recorder = lonely.node->recorder;
      recorder.decide = [kind](Link&, const Frame&) { return kind; };
      std::vector<std::byte> room(400'001);
      if (kind == Acceptance::Kind::memory) recorder.place = room;
      if (are_expected) {
        recorder.on_received = [&](Link& from) {
          if (recorder.messages.size() < sizes.size())
            from.expect(sizes[recorder.messages.size()], recorder.place.data());
        };
      }
      RawPeer peer = lonely.enter("", 2);
      std::string stream;
      for (const std::size_t size : sizes)
        stream += text_of(encode(Frame{.length = size})) + text_of(pattern(size, size));
      for (std::size_t at = 0, piece = 1; at < stream.size(); at += piece, piece = piece * 5 % 65521 + 1) {
        peer.write(std::string_view(stream).substr(at, piece));
        lonely.node->step();
      }
      REQUIRE(lonely.run_until([&] { return recorder.messages.size() == sizes.size(); }));
      for (std::size_t i = 0; i < sizes.size(); ++i) CHECK(recorder.messages[i].bytes == pattern(sizes[i], sizes[i]));
      CHECK(recorder.broken == "");
    }
  }
}

TEST_CASE("an abort is read whole where a payload is expected") {
  for (const bool as_views : {false, true}) {
    Lonely lonely;
    Recorder& recorder = lonely.node->recorder;
    std::vector<std::byte> room(16 * 1024);
    recorder.on_received = [&](Link& from) { from.expect(room.size(), as_views ? nullptr : room.data()); };
    RawPeer peer = lonely.enter(text_of(encode(Frame{})), 2);
    REQUIRE(lonely.run_until([&] { return recorder.messages.size() == 1; }));
    peer.write(text_of(abort_message(Error(ErrorCode::timeout, "rank 3 is late", 3, 9))));
    REQUIRE(lonely.run_until([&] { return !recorder.failures.empty(); }));
    CHECK(recorder.failures[0].text == "rank 3 is late");
  }
}

TEST_CASE("a message of another length than was expected can be parked, and ends the link if it is taken") {
  for (const auto kind : {Acceptance::Kind::park, Acceptance::Kind::memory, Acceptance::Kind::views}) {
    CAPTURE(static_cast<int>(kind));
    Lonely lonely;
    Recorder& recorder = lonely.node->recorder;
    std::vector<std::byte> room(16 * 1024);
    recorder.on_received = [&](Link& from) {
      recorder.decide = [kind](Link&, const Frame&) { return kind; };
      from.expect(room.size(), kind == Acceptance::Kind::views ? nullptr : room.data());
    };
    RawPeer peer = lonely.enter(text_of(encode(Frame{})), 2);
    REQUIRE(lonely.run_until([&] { return recorder.messages.size() == 1; }));
    const std::string shorter = text_of(encode(Frame{.length = 9000})) + text_of(pattern(9000, 1));
    peer.write(shorter + shorter);
    REQUIRE(lonely.run_until([&] { return !recorder.failures.empty() || !recorder.parked.empty(); }));
    CHECK(recorder.messages.size() == 1);
    CHECK(recorder.failures.empty() == (kind == Acceptance::Kind::park));
    if (!recorder.failures.empty()) CHECK(recorder.failures[0].text.find("expected 16384 bytes") != std::string::npos);
  }
}

TEST_CASE("bytes that are no frame end the link as a mismatch that names the peer") {
  for (const std::string& garbage :
       {std::string(frame_size, 'x'), text_of(encode(Frame{.kind = FrameKind::abort, .length = max_reason + 1}))}) {
    Lonely lonely;
    RawPeer peer = lonely.enter(text_of(encode(Frame{})) + garbage);
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
    RawPeer first = lonely.enter(text_of(encode(Frame{})));
    REQUIRE(lonely.run_until([&] { return lonely.node->recorder.messages.size() == 1; }));
    RawPeer courier = lonely.enter(text_of(abort_message(reason)));
  }
  CHECK(lonely.run_until([&] { return !lonely.node->recorder.failures.empty(); }));
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
    RawPeer peer = let_in(listener, *node);
    peer.write(text_of(abort_message(Error(ErrorCode::mismatch, "rank 5 called something else", 5, 2))));
  }  // closes with megabytes unread: a reset
  for (int i = 0; i < 1'000'000 && node->recorder.failures.empty(); ++i) node->transport->progress();
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
  RawPeer peer = let_in(listener, *node);
  peer.write(text_of(encode(Frame{.kind = FrameKind::bye})));
  for (const auto deadline = Clock::now() + 10s; node->recorder.failures.empty() && Clock::now() < deadline;)
    node->step();
  REQUIRE(node->recorder.failures.size() == 1);
  CHECK(node->recorder.failures[0].code == ErrorCode::peer_lost);
  CHECK(node->recorder.failures[0].text.find("closed its communicator") != std::string::npos);
}

TEST_CASE("a link may bring more until its bye has been read, behind all messages") {
  constexpr Channel channel = 1, other_channel = 3;
  Pair pair;
  const auto may_bring_more = [&](Channel of) { return pair.receiver->transport->may_bring_more(0, of); };
  CHECK_FALSE(may_bring_more(channel));
  REQUIRE(pair.exchange(100, 1));
  CHECK(may_bring_more(channel));
  CHECK_FALSE(may_bring_more(other_channel));
  CHECK_FALSE(pair.receiver->transport->may_bring_more(1, channel));
  pair.sender->send(1, channel, 1000, 2);
  pair.sender->transport->close_channel(channel, Clock::now() + 10s);
  CHECK(may_bring_more(channel));
  CHECK(pair.run_until([&] { return !may_bring_more(channel); }));
  CHECK(pair.receiver->recorder.messages.size() == 2);
}

TEST_CASE("a peer that does not listen yet is tried again, also by a rank that sleeps") {
  RawListener listener(RawListener::Start::later);
  const auto node = make_node(0);
  node->transport->set_peers({node->transport->address(), listener.address()});
  node->send(1, 1, 100, 1);
  for (int i = 0; i < 100; ++i) node->step();
  CHECK(node->recorder.tokens.empty());
  CHECK(node->recorder.failures.empty());
  std::thread opener([&] {
    listener.start();
    RawPeer peer = listener.accept();
    CHECK(peer.shake_hands(Handshake::accept(key, Purpose::link, 1)));
  });
  CHECK(node->sleep_until([&] { return !node->recorder.tokens.empty(); }));
  opener.join();
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

TEST_CASE("a socket that is connected to itself counts as refused") {
  const net::Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const auto any = net::parse_address("127.0.0.1", 0);
  REQUIRE(::bind(socket.get(), any->get(), any->length) == 0);
  const auto itself = net::parse_address(net::local_address(socket).text());
  if (::connect(socket.get(), itself->get(), itself->length) != 0) REQUIRE(errno == EINPROGRESS);
  pollfd ready{.fd = socket.get(), .events = POLLOUT, .revents = 0};
  REQUIRE(::poll(&ready, 1, 10'000) == 1);
  CHECK(net::connected(socket) == ECONNREFUSED);
}

TEST_CASE("ranks talk over IPv6 loopback") {
  Reactor reactor;
  try {
    const TcpTransport probe(0, {.bind_address = "::1", .key = key}, reactor);
  } catch (const Error& error) {
    MESSAGE("skipped, this host has no IPv6 loopback: ", error.what());
    return;
  }
  Pair pair({.bind_address = "::1"});
  CHECK(pair.acceptor().substr(0, 6) == "[::1]:");
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

TEST_CASE("both ends of a connection use the congestion algorithm that was asked for") {
  for (const std::string name : {"reno", "cubic"}) {
    const Descriptor sample{::socket(AF_INET, SOCK_STREAM, 0)};
    if (::setsockopt(sample.get(), IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size())) != 0)
      continue;  // this system does not let us choose it
    Pair pair({.congestion = name});
    REQUIRE(pair.exchange(1000, 1));
    const std::vector<int> ends = connections();
    CHECK(ends.size() >= 2);
    for (const int descriptor : ends) {
      std::array<char, 16> used{};
      socklen_t size = used.size();
      REQUIRE(::getsockopt(descriptor, IPPROTO_TCP, TCP_CONGESTION, used.data(), &size) == 0);
      CHECK(used.data() == name);
    }
  }
}

TEST_CASE("on loopback no more is under way than caches hold, where the kernel lets us say so") {
  int most = 0;
  std::ifstream{"/proc/sys/net/core/wmem_max"} >> most;
  if (most < 512 << 10) {
    MESSAGE("net.core.wmem_max is ", most, ": nothing to see here");
    return;
  }
  Pair pair;
  REQUIRE(pair.exchange(16 * mebibyte, 1));  // for which the kernel would let the buffer grow
  const std::vector<int> ends = connections();
  CHECK(ends.size() >= 2);
  for (const int descriptor : ends) {
    int bytes = 0;
    socklen_t size = sizeof bytes;
    REQUIRE(::getsockopt(descriptor, SOL_SOCKET, SO_SNDBUF, &bytes, &size) == 0);
    CHECK(bytes == 1 << 20);
  }
}

TEST_CASE("on loopback no receive buffer grows until the kernel has no memory left for sockets") {
  Pair pair;
  REQUIRE(pair.exchange(16 * mebibyte, 1));
  for (const int descriptor : connections()) {
    int bytes = 0;
    socklen_t size = sizeof bytes;
    REQUIRE(::getsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &bytes, &size) == 0);
    CHECK(bytes <= 2 << 20);
    CHECK(bytes >= 64 << 10);
  }
}

TEST_CASE("a sender's memory that cannot be read ends the link at once, with the reason") {
  void* const nothing = ::mmap(nullptr, mebibyte, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(nothing != MAP_FAILED);
  for (const Channel channel : {Channel{1}, Channel{2}}) {
    Pair pair;
    REQUIRE(pair.exchange(100, 1));
    CHECK_FALSE(pair.sender->transport->open(1, channel)
                    .send(Frame{.length = mebibyte}, std::span{static_cast<const std::byte*>(nothing), mebibyte}, 7));
    REQUIRE(pair.run_until([&] { return !pair.sender->recorder.failures.empty(); }));
    CHECK(pair.sender->recorder.failures[0].text.find("Bad address") != std::string::npos);
  }
  ::munmap(nothing, mebibyte);
}

}  // namespace tutti::transport::testing
