// TCP alone: both links of a pair of ranks use one connection, whichever rank made it, and neither direction delays the
// other.

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <future>
#include <vector>

#include "tests/support/sizes.h"
#include "tests/transport/tcp_pair.h"

namespace tutti::transport::testing {
namespace {

using namespace std::chrono_literals;

using tutti::testing::mebibyte;

constexpr Channel channel = 2;

std::string message(std::size_t size, std::uint64_t seed) {
  return text_of(encode(Frame{.length = size})) + text_of(pattern(size, seed));
}

/// Does what blocks in a thread of its own, while this one drives the node.
template <class Blocking>
auto meanwhile(Node& node, Blocking&& blocking) {
  auto result = std::async(std::launch::async, blocking);
  while (result.wait_for(0s) != std::future_status::ready) node.step();
  return result.get();
}

/// The payload of a message that a node sends.
std::string read_from(RawPeer& peer, Node& node, std::size_t size) {
  return meanwhile(node, [&] { return peer.read(frame_size + size); }).substr(frame_size);
}

std::string payload(std::size_t size, std::uint64_t seed) { return text_of(pattern(size, seed)); }

/// This process's descriptor of the other end of the connection.
int other_end_of(const RawPeer& peer) {
  sockaddr_in mine{}, theirs{};
  socklen_t size = sizeof mine;
  REQUIRE(::getsockname(peer.descriptor(), reinterpret_cast<sockaddr*>(&mine), &size) == 0);
  for (int descriptor = 0; descriptor < 1024; ++descriptor) {
    size = sizeof theirs;
    if (::getpeername(descriptor, reinterpret_cast<sockaddr*>(&theirs), &size) == 0 && theirs.sin_family == AF_INET &&
        theirs.sin_port == mine.sin_port)
      return descriptor;
  }
  FAIL("no descriptor has that peer");
  return -1;
}

/// Whether the kernel acknowledges what comes there at once, within the read.
bool acknowledges_at_once(int descriptor) {
  int value = -1;
  socklen_t size = sizeof value;
  REQUIRE(::getsockopt(descriptor, IPPROTO_TCP, TCP_QUICKACK, &value, &size) == 0);
  return value != 0;
}

bool reported(Pair& pair, const Node& node) {
  return pair.run_until([&] { return !node.recorder.failures.empty(); });
}

}  // namespace

TEST_CASE("an answer comes back on the connection of the question") {
  Lonely lonely;  // it cannot connect to rank 0: nobody listens there
  RawPeer peer = lonely.enter(message(100, 1), channel);
  REQUIRE(lonely.run_until([&] { return lonely.node->recorder.messages.size() == 1; }));
  lonely.node->send(0, channel, 200, 2);
  CHECK(read_from(peer, *lonely.node, 200) == payload(200, 2));
}

TEST_CASE("what comes one way from a rank of this host is acknowledged while its receiver waits for more") {
  for (const bool within_host : {true, false}) {
    Lonely lonely;
    static_cast<TcpTransport&>(*lonely.node->transport).set_within_host({within_host, true});
    RawPeer peer = lonely.enter(message(100, 1));  // a channel on which messages may come at any time
    REQUIRE(lonely.run_until([&] { return lonely.node->recorder.messages.size() == 1; }));
    const int receiver = other_end_of(peer), at_once = 1;
    REQUIRE(::setsockopt(receiver, IPPROTO_TCP, TCP_QUICKACK, &at_once, sizeof at_once) == 0);
    CHECK(acknowledges_at_once(receiver));
    peer.write(message(100, 2));
    REQUIRE(lonely.run_until([&] { return lonely.node->recorder.messages.size() == 2; }));
    while (lonely.node->transport->progress()) {
    }
    CHECK(acknowledges_at_once(receiver) == !within_host);
  }
}

TEST_CASE("where ranks share cores, some messages that come one way are acknowledged together") {
  Lonely lonely;
  auto& transport = static_cast<TcpTransport&>(*lonely.node->transport);
  transport.set_within_host({true, true});
  transport.share_cores();
  RawPeer peer = lonely.enter("");
  const int receiver = other_end_of(peer), at_once = 1;
  std::vector<bool> together;
  for (std::size_t messages = 1; messages <= 8; ++messages) {
    REQUIRE(::setsockopt(receiver, IPPROTO_TCP, TCP_QUICKACK, &at_once, sizeof at_once) == 0);
    peer.write(message(100, 1));
    REQUIRE(lonely.run_until([&] { return lonely.node->recorder.messages.size() == messages; }));
    while (transport.progress()) {
    }
    together.push_back(!acknowledges_at_once(receiver));
  }
  CHECK(std::ranges::count(together, true) == 2);
}

TEST_CASE("bytes that come back on a rank's own connection are read") {
  RawListener listener;
  const auto node = make_node(0);
  node->transport->set_peers({node->transport->address(), listener.address()});
  node->send(1, channel, 100, 1);
  RawPeer peer = let_in(listener, *node);
  CHECK(read_from(peer, *node, 100) == payload(100, 1));
  peer.write(message(300, 3) + message(17, 4));
  REQUIRE(node->sleep_until([&] { return node->recorder.messages.size() == 2; }));
  CHECK(node->recorder.messages[0].bytes == pattern(300, 3));
  CHECK(node->recorder.messages[1].bytes == pattern(17, 4));
}

TEST_CASE("the higher rank gives the lower one time to connect") {
  Lonely lonely;
  lonely.node->send(0, channel, 200, 2);
  RawPeer peer = lonely.enter("", channel);
  CHECK(read_from(peer, *lonely.node, 200) == payload(200, 2));
  CHECK(lonely.node->recorder.failures.empty());
}

TEST_CASE("the higher rank connects when the lower one does not, and both connections work") {
  RawListener listener;
  const auto node = make_node(1);
  node->transport->set_peers({listener.address(), node->transport->address()});
  node->send(0, channel, 200, 2);
  RawPeer own = meanwhile(*node, [&] { return listener.accept(); });
  REQUIRE(own.shake_hands(Handshake::accept(key, Purpose::link, 0), [&] { node->step(); }));
  RawPeer other(node->transport->address(), "");
  REQUIRE(other.shake_hands(Handshake::initiate(key, {.from = 0, .to = 1, .channel = channel})));
  other.write(message(100, 1));
  REQUIRE(node->sleep_until([&] { return node->recorder.messages.size() == 1; }));
  node->send(0, channel, 300, 3);
  CHECK(read_from(own, *node, 200) == payload(200, 2));
  CHECK(read_from(own, *node, 300) == payload(300, 3));
}

TEST_CASE("neither direction waits for the other") {
  Pair pair;
  pair.receiver->recorder.decide = [](Link&, const Frame&) { return Acceptance::Kind::park; };
  pair.sender->send(1, channel, 64 * mebibyte, 1);  // parked, and the connection is full
  REQUIRE(pair.run_until([&] { return !pair.receiver->recorder.parked.empty(); }));
  pair.receiver->send(0, channel, 48 * mebibyte, 2);
  REQUIRE(pair.run_until([&] { return pair.sender->recorder.messages.size() == 1; }));
  CHECK(pair.sender->recorder.messages[0].bytes == pattern(48 * mebibyte, 2));
}

TEST_CASE("an abort passes what is parked on the connection") {
  for (const int aborting : {0, 1}) {
    Pair pair;
    Node& one = aborting == 0 ? *pair.sender : *pair.receiver;
    Node& two = aborting == 0 ? *pair.receiver : *pair.sender;
    pair.sender->send(1, channel, 10, 1);
    REQUIRE(pair.run_until([&] { return !pair.receiver->recorder.messages.empty(); }));
    pair.receiver->send(0, channel, 10, 1);
    REQUIRE(pair.run_until([&] { return !pair.sender->recorder.messages.empty(); }));
    two.recorder.decide = [](Link&, const Frame&) { return Acceptance::Kind::park; };
    one.send(two.rank, channel, 64 * mebibyte, 2);
    REQUIRE(pair.run_until([&] { return !two.recorder.parked.empty(); }));
    one.transport->abort_channel(channel, Error(ErrorCode::timeout, "rank 7 is late", 7, 3));
    REQUIRE(reported(pair, two));
    CHECK(two.recorder.failures[0].text == "rank 7 is late");
    CHECK(two.recorder.failures[0].rank == 7);
  }
}

TEST_CASE("a peer that said bye behind a message is not said to have died when more is sent to it") {
  Pair pair;
  pair.sender->send(1, channel, 10, 1);
  REQUIRE(pair.run_until([&] { return !pair.receiver->recorder.messages.empty(); }));
  pair.receiver->send(0, channel, 300, 2);
  pair.receiver->transport->close_channel(channel, Clock::now() + 10s);
  Link& link = pair.sender->transport->open(1, channel);
  for (int i = 0; i < 3; ++i) pair.sender->send(link, 10, 3);  // meets a connection that is reset
  CHECK(reported(pair, *pair.sender));
  CHECK(pair.sender->recorder.messages.size() == 1);
  REQUIRE(pair.sender->recorder.failures.size() == 1);
  CHECK(pair.sender->recorder.failures[0].link == &link);
  CHECK(pair.sender->recorder.failures[0].text.find("closed its communicator") != std::string::npos);
}

TEST_CASE("a control frame to a rank that has left harms none of its earlier frames, and is not reported") {
  Pair pair;
  pair.sender->send(1, channel, 10, 1);
  REQUIRE(pair.run_until([&] { return !pair.receiver->recorder.messages.empty(); }));
  pair.receiver->send(0, channel, mebibyte, 2);
  for (int i = 0; i < 10; ++i) pair.receiver->step();
  pair.receiver->transport->close_channel(channel, Clock::now() + 10s);
  Link& aside = pair.sender->transport->open_aside(1, channel);
  for (int i = 0; i < 3; ++i) pair.sender->send(aside, 10, 3);
  REQUIRE(pair.run_until([&] { return !pair.sender->recorder.messages.empty(); }));
  for (int i = 0; i < 3; ++i) pair.sender->send(aside, 10, 3);
  for (int i = 0; i < 100; ++i) pair.sender->step();
  CHECK(pair.sender->recorder.messages[0].bytes == pattern(mebibyte, 2));
  CHECK(pair.sender->recorder.failures.empty());
}

TEST_CASE("a control frame arrives in the midst of a link's messages") {
  Pair pair;
  pair.receiver->recorder.decide = [](Link&, const Frame& frame) {
    return frame.length > mebibyte ? Acceptance::Kind::park : Acceptance::Kind::memory;
  };
  pair.sender->send(1, channel, 64 * mebibyte, 1);  // parked, and the connection is full
  REQUIRE(pair.run_until([&] { return !pair.receiver->recorder.parked.empty(); }));
  pair.sender->send(pair.sender->transport->open_aside(1, channel), 10, 2);
  REQUIRE(pair.run_until([&] { return pair.receiver->recorder.messages.size() == 1; }));
  CHECK(pair.receiver->recorder.messages[0].bytes == pattern(10, 2));
}

TEST_CASE("an abort is heard where the peer has spoken aside, too") {
  Pair pair;
  pair.sender->send(1, channel, 10, 1);
  REQUIRE(pair.run_until([&] { return !pair.receiver->recorder.messages.empty(); }));
  pair.receiver->send(pair.receiver->transport->open_aside(0, channel), 10, 2);
  REQUIRE(pair.run_until([&] { return !pair.sender->recorder.messages.empty(); }));
  pair.sender->transport->abort_channel(channel, Error(ErrorCode::timeout, "rank 7 is late", 7, 3));
  REQUIRE(reported(pair, *pair.receiver));
  for (const Recorder::Failure& failure : pair.receiver->recorder.failures) CHECK(failure.text == "rank 7 is late");
}

TEST_CASE("a rank that closes while it is being let in aside says bye, and does not seem to have died") {
  RawListener listener;
  const auto node = make_node(0);
  node->transport->set_peers({node->transport->address(), listener.address()});
  node->send(node->transport->open_aside(1, channel), 10, 1);
  RawPeer peer = meanwhile(*node, [&] { return listener.accept(); });
  REQUIRE(peer.shake_hands(Handshake::accept(key, Purpose::link, 1), [&] { node->step(); }));
  node->transport->close_channel(channel, Clock::now() + 10s);  // which is the first to see that it was accepted
  CHECK(peer.read(frame_size + 10).size() == frame_size + 10);
  CHECK(peer.read(frame_size) == text_of(encode(Frame{.kind = FrameKind::bye})));
}

TEST_CASE("closing does not wait for what is said aside to who cannot be reached") {
  RawListener listener(RawListener::Start::later);
  const auto node = make_node(0);
  node->transport->set_peers({node->transport->address(), listener.address()});
  node->send(node->transport->open_aside(1, channel), 10, 1);
  for (int i = 0; i < 100; ++i) node->step();
  const auto begin = Clock::now();
  node->transport->close_channel(channel, begin + 60s);
  CHECK(Clock::now() - begin < 30s);
}

TEST_CASE("a peer that is lost on one connection is lost on the other, too") {
  RawListener listener;
  const auto node = make_node(1);
  node->transport->set_peers({listener.address(), node->transport->address()});
  node->send(0, channel, 200, 2);
  RawPeer own = meanwhile(*node, [&] { return listener.accept(); });
  REQUIRE(own.shake_hands(Handshake::accept(key, Purpose::link, 0), [&] { node->step(); }));
  RawPeer other(node->transport->address(), "");
  REQUIRE(other.shake_hands(Handshake::initiate(key, {.from = 0, .to = 1, .channel = channel})));
  other.write(message(100, 1));
  REQUIRE(node->sleep_until([&] { return node->recorder.messages.size() == 1; }));
  other.reset();
  CHECK(node->sleep_until([&] { return node->recorder.failures.size() == 2; }));
}

}  // namespace tutti::transport::testing
