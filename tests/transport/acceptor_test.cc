// The connections that an acceptor lets in, and the harm that others cannot do.

#include "transport/acceptor.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "tests/support/sizes.h"
#include "tests/transport/tcp_pair.h"

namespace tutti::transport::testing {
namespace {

using namespace std::chrono_literals;

using tutti::testing::mebibyte;

}  // namespace

TEST_CASE_TEMPLATE("a rank sends the bytes of docs/wire.md, and nothing before the other side has proved itself", Kind,
                   OverTcp, OverUnix) {
  RawListener listener(Kind::anywhere());
  const auto node = make_node(0, {}, Kind::anywhere());
  node->transport->set_peers({node->transport->address(), listener.address()});
  const Frame frame{.kind = FrameKind::eager, .length = 5, .tag = 3};
  const std::string payload = "tutti";
  CHECK_FALSE(node->transport->open(1, 0x1122334455667788).send(frame, std::as_bytes(std::span(payload)), 1));
  for (int i = 0; i < 100; ++i) node->step();

  RawPeer peer = listener.accept();
  std::string heard = peer.read(Handshake::hello_size);
  CHECK(heard.substr(0, 24) == std::string("TUTI\4\0\1\0"
                                           "\0\0\0\0\1\0\0\0"
                                           "\x88\x77\x66\x55\x44\x33\x22\x11",
                                           24));
  for (int i = 0; i < 100; ++i) node->step();
  CHECK_FALSE(peer.closed_by_peer());
  CHECK(peer.heard().empty());
  CHECK(node->recorder.tokens.empty());

  Handshake handshake = Handshake::accept(key, Purpose::link, 1);
  std::memcpy(handshake.incoming().data(), heard.data(), heard.size());
  handshake.received(heard.size());
  REQUIRE(peer.shake_hands(handshake, [&] { node->step(); }));
  const std::string expected = text_of(encode(frame)) + payload;
  REQUIRE(node->sleep_until([&] { return !node->recorder.tokens.empty(); }));
  CHECK(peer.read(expected.size()) == expected);
}

TEST_CASE_TEMPLATE("strangers do not disturb ranks that talk, and learn nothing but a nonce and a digest", Kind,
                   OverTcp, OverUnix) {
  Pair pair(Kind::anywhere());
  REQUIRE(pair.exchange(100, 1));
  const std::string good = first_bytes({.from = 0, .to = 1, .channel = 99});
  const std::string proof(Handshake::proof_size, 'p');
  const std::vector<std::string> greetings = {
      "GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: curl\r\n\r\n",
      std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + std::string(600, '\x5a'),  // TLS
      std::string(Handshake::hello_size, '\0'),
      text_of(pattern(mebibyte, 3)),
      first_bytes({.from = 0, .to = 0, .channel = 99}),                                        // for another rank
      first_bytes({.from = 0, .to = 1, .channel = 99, .purpose = Purpose::failure_detector}),  // for another purpose
      std::string(4, 'T') + good.substr(4),                                                    // another magic
      good.substr(0, 4) + "\1" + good.substr(5),                                               // another version
      good + proof,  // the right hello, but no secret
      first_bytes({.from = 0, .to = 1, .channel = 99}, other_key) + proof + text_of(encode(Frame{})),
  };
  std::uint64_t seed = 10;
  for (const std::string& greeting : greetings) {
    CAPTURE(greeting.substr(0, 40));
    RawPeer stranger(pair.acceptor(), greeting);
    CHECK(pair.exchange(mebibyte + seed, seed));
    CHECK(pair.run_until([&] { return stranger.closed_by_peer(); }));
    CHECK(stranger.heard().size() <= Handshake::answer_size);
    ++seed;
  }
  for (int i = 0; i < 20; ++i) {
    { const RawPeer almost{pair.acceptor(), good.substr(0, 55)}; }  // connects, says almost enough, and goes
    { const RawPeer silent{pair.acceptor(), ""}; }
    CHECK(pair.exchange(1000, seed++));
  }
  CHECK(pair.run_until([&] { return pair.unproved() == 0; }));
  CHECK(pair.receiver->recorder.failures.empty());
  CHECK(pair.sender->recorder.failures.empty());
  for (const auto& message : pair.receiver->recorder.messages) CHECK(message.channel == 1);
}

TEST_CASE_TEMPLATE("a process of another job is told apart on both sides", Kind, OverTcp, OverUnix) {
  Pair pair(Kind::anywhere());
  RawPeer stranger(pair.acceptor(), "");
  CHECK_FALSE(stranger.shake_hands(Handshake::initiate(other_key, {.from = 0, .to = 1, .channel = 1})));
  RawPeer rank_without(pair.acceptor(), "");
  CHECK_FALSE(rank_without.shake_hands(Handshake::initiate(Secret{}, {.from = 0, .to = 1, .channel = 1})));

  RawListener impostor(Kind::anywhere());
  const auto node = make_node(0, {}, Kind::anywhere());
  node->transport->set_peers({node->transport->address(), impostor.address()});
  node->send(1, 1, 100, 1);
  for (int i = 0; i < 100; ++i) node->step();
  RawPeer accepted = impostor.accept();
  CHECK_FALSE(accepted.shake_hands(Handshake::accept(other_key, Purpose::link, 1), [&] { node->step(); }));
  REQUIRE(node->sleep_until([&] { return !node->recorder.failures.empty(); }));
  CHECK(node->recorder.failures[0].code == ErrorCode::peer_lost);
  CHECK(node->recorder.failures[0].rank == 1);
  CHECK(node->recorder.failures[0].text.find("does not know this job's secret") != std::string::npos);
}

TEST_CASE_TEMPLATE("a rank that does not exist is turned away although it knows the secret", Kind, OverTcp, OverUnix) {
  Pair pair(Kind::anywhere());
  for (const int from : {2, -1}) {
    RawPeer member(pair.acceptor(), "");
    CHECK(member.shake_hands(Handshake::initiate(key, {.from = from, .to = 1, .channel = 1})));
    CHECK(pair.run_until([&] { return member.closed_by_peer(); }));
  }
  CHECK(pair.exchange(100, 1));
}

TEST_CASE_TEMPLATE("nobody is accepted whose purpose is not served any more", Kind, OverTcp, OverUnix) {
  for (const bool dismissed : {false, true}) {
    CAPTURE(dismissed);
    std::atomic<int> handed_over{0};
    Acceptor acceptor(Kind::anywhere(), {key, 1});
    acceptor.serve(Purpose::failure_detector, [&](const Hello&, net::Socket) { ++handed_over; });
    RawPeer peer(acceptor.address(), "");
    Handshake handshake = Handshake::initiate(key, {.to = 1, .purpose = Purpose::failure_detector});
    peer.say_hello(handshake);
    if (dismissed) acceptor.dismiss(Purpose::failure_detector);
    CHECK(peer.shake_hands(handshake) == !dismissed);
    acceptor.close();
    CHECK(handed_over == (dismissed ? 0 : 1));
  }
}

TEST_CASE_TEMPLATE("a handshake that was recorded opens nothing when it is played again", Kind, OverTcp, OverUnix) {
  Pair pair(Kind::anywhere());
  RawPeer first(pair.acceptor(), "");
  Handshake handshake = Handshake::initiate(key, {.from = 0, .to = 1, .channel = 1});
  const std::string recorded = text_of(handshake.outgoing());
  const std::string answer = first.say_hello(handshake);
  const std::string proof = text_of(handshake.outgoing());
  first.write(proof);
  REQUIRE(first.read(1) == "W");

  RawPeer second(pair.acceptor(), recorded + proof);
  CHECK(pair.run_until([&] { return second.closed_by_peer(); }));
  CHECK(second.heard().size() == Handshake::answer_size);
  CHECK(second.heard() != answer);
}

TEST_CASE_TEMPLATE("a stranger that stops in the middle is shown out in time, while the rank does nothing", Kind,
                   OverTcp, OverUnix) {
  Lonely lonely({.hello_timeout = 100ms}, Kind::anywhere());
  RawPeer half(lonely.node->transport->address(), first_bytes().substr(0, 20));
  RawPeer no_proof(lonely.node->transport->address(), first_bytes());
  for (RawPeer* stranger : {&half, &no_proof}) {
    const auto end = Clock::now() + 30s;
    while (!stranger->closed_by_peer() && Clock::now() < end) std::this_thread::yield();
    CHECK(stranger->closed_by_peer());
  }
  CHECK(static_cast<TcpTransport&>(*lonely.node->transport).unproved() == 0);
}

TEST_CASE_TEMPLATE("a sender gets through, and its message out, while the receiver does nothing", Kind, OverTcp,
                   OverUnix) {
  Pair pair(Kind::anywhere());
  pair.sender->send(1, 1, 1000, 1);
  CHECK(pair.sender->sleep_until([&] { return !pair.sender->recorder.tokens.empty(); }));
  CHECK(pair.run_until([&] { return pair.receiver->recorder.messages.size() == 1; }));
}

TEST_CASE_TEMPLATE("four hundred connections that say something and then nothing leave room for a peer", Kind, OverTcp,
                   OverUnix) {
  Pair pair({.hello_timeout = 20s}, Kind::anywhere());
  std::vector<RawPeer> crowd;
  for (int i = 0; i < 400; ++i) crowd.emplace_back(pair.acceptor(), "T");
  const auto start = Clock::now();
  CHECK(pair.exchange(100'001, 1));
  CHECK(Clock::now() - start < 10s);  // of those the oldest had to go before their time
  CHECK(pair.unproved() <= 128);
}

TEST_CASE_TEMPLATE("a thousand connections that say nothing do not keep a peer waiting", Kind, OverTcp, OverUnix) {
  Pair pair({.hello_timeout = 20s}, Kind::anywhere());
  std::vector<RawPeer> crowd;
  for (int i = 0; i < 900; ++i) crowd.emplace_back(pair.acceptor(), "");
  const auto start = Clock::now();
  CHECK(pair.exchange(100'001, 1));
  CHECK(Clock::now() - start < 15s);  // before the time of any of them is over
}

TEST_CASE_TEMPLATE("three hundred peers that connect first and speak later are all let in", Kind, OverTcp, OverUnix) {
  Lonely lonely({.hello_timeout = 100s}, Kind::anywhere());
  constexpr int count = 300;
  std::vector<RawPeer> peers;
  for (int i = 0; i < count; ++i) peers.push_back(lonely.connect());
  for (int i = 0; i < count; ++i) {
    RawPeer& peer = peers[static_cast<std::size_t>(i)];
    REQUIRE(peer.shake_hands(Handshake::initiate(key, {.from = 0, .to = 1, .channel = static_cast<Channel>(i)})));
    peer.write(text_of(encode(Frame{.length = 4})) + "four");
  }
  CHECK(lonely.run_until([&] { return lonely.node->recorder.messages.size() == count; }));
  CHECK(lonely.node->recorder.failures.empty());
}

TEST_CASE_TEMPLATE("a handshake, a frame and a payload that come byte by byte are understood", Kind, OverTcp,
                   OverUnix) {
  Lonely lonely(Kind::anywhere());
  RawPeer peer = lonely.connect();
  Handshake handshake = Handshake::initiate(key, {.from = 0, .to = 1, .channel = 1});
  const auto trickle = [&](std::string_view bytes) {
    for (const char byte : bytes) {
      peer.write({&byte, 1});
      for (int i = 0; i < 3; ++i) lonely.node->step();
    }
  };
  while (handshake.state() == Handshake::State::under_way) {
    trickle(text_of(handshake.outgoing()));
    handshake.sent(handshake.outgoing().size());
    const std::string heard = peer.read(handshake.incoming().size());
    REQUIRE(heard.size() == handshake.incoming().size());
    std::memcpy(handshake.incoming().data(), heard.data(), heard.size());
    handshake.received(heard.size());
  }
  trickle(text_of(encode(Frame{.length = 3, .operation = 5})) + "abc");
  CHECK(lonely.run_until([&] { return lonely.node->recorder.messages.size() == 1; }));
  CHECK(lonely.node->recorder.messages[0].frame.operation == 5);
  CHECK(text_of(lonely.node->recorder.messages[0].bytes) == "abc");
}

}  // namespace tutti::transport::testing
