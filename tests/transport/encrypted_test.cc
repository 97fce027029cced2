// Encrypted links: what who stands between two ranks gets of them, and what becomes of ranks that disagree. That they
// carry messages as any others do is for the conformance suite.

#include <doctest/doctest.h>
#include <poll.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "lib/security/handshake_io.h"
#include "tests/support/connected.h"
#include "tests/transport/tcp_pair.h"
#include "transport/acceptor.h"
#include "transport/stream_socket.h"

namespace tutti::transport::testing {
namespace {

using namespace std::chrono_literals;
using tutti::testing::connect_as;

constexpr std::string_view phrase = "what rank 0 has to say to rank 1 and to nobody else";

/// Stands before an acceptor, hands one connection on, and keeps what passes.
class Relay {
 public:
  Relay(const std::string& acceptor, const net::Address& at)
      : acceptor_(*net::parse_address(acceptor)),
        listener_(net::listen_at(at, 0s)),
        address_(net::local_address(listener_).text()),
        thread_([this] { run(); }) {}
  ~Relay() { stop(); }

  const std::string& address() const { return address_; }
  /// All that has passed.
  const std::string& stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    return heard_;
  }

 private:
  void run() {
    net::Socket client;
    while (!stop_ && !(client = accept_from(listener_, ""))) std::this_thread::sleep_for(1ms);
    int error = 0;
    const net::Socket server = connect_to(acceptor_, {}, error);
    while (!stop_ && net::connected(server) == EINPROGRESS) std::this_thread::yield();
    while (!stop_ && hand_on(client, server) && hand_on(server, client)) {
      std::array<pollfd, 2> queries{pollfd{client.get(), POLLIN, 0}, pollfd{server.get(), POLLIN, 0}};
      ::poll(queries.data(), queries.size(), 10);
    }
  }
  bool hand_on(const net::Socket& from, const net::Socket& to) {
    std::array<char, 65'536> buffer;
    iovec piece{buffer.data(), buffer.size()};
    const net::Moved got = net::read_some(from, {&piece, 1});
    if (got.error != 0) return got.error == EAGAIN;
    heard_.append(buffer.data(), got.bytes);
    for (std::size_t sent = 0; sent < got.bytes && !stop_;) {
      iovec rest{buffer.data() + sent, got.bytes - sent};
      const net::Moved put = net::write_some(to, {&rest, 1});
      if (put.failed()) return false;
      sent += put.bytes;
    }
    return true;
  }

  const net::Address acceptor_;
  const net::Socket listener_;
  const std::string address_;
  std::string heard_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

std::shared_ptr<TlsProxies> tls_proxies(bool wanted) { return wanted ? std::make_shared<TlsProxies>() : nullptr; }

}  // namespace

TEST_CASE("a process between two ranks reads what they say, unless it is encrypted") {
  std::string said;
  for (int i = 0; i < 1000; ++i) said += phrase;
  for (const bool encrypted : {false, true}) {
    CAPTURE(encrypted);
    Pair pair({.tls_proxies = tls_proxies(encrypted)});
    Relay relay(pair.acceptor(), OverTcp::anywhere());
    pair.sender->transport->set_peers({pair.sender->transport->address(), relay.address()});
    pair.sender->transport->open(1, 1).send({.length = said.size()}, std::as_bytes(std::span(said)), 0);
    REQUIRE(pair.run_until([&] { return !pair.receiver->recorder.messages.empty(); }));
    CHECK((text_of(pair.receiver->recorder.messages[0].bytes) == said));
    const std::string& heard = relay.stop();
    CHECK(heard.size() > said.size());
    CHECK((heard.find(phrase) == std::string::npos) == encrypted);
    CHECK((heard.find(phrase.substr(0, 12)) == std::string::npos) == encrypted);
  }
}

TEST_CASE_TEMPLATE("signs of life are encrypted, too, where their acceptor is", Kind, OverTcp, OverUnix) {
  std::atomic<bool> done{false};
  net::Socket guest;
  Acceptor acceptor(Kind::anywhere(), {key, 1, tls_proxies(true)});
  acceptor.serve(Purpose::failure_detector, [&](const Hello&, net::Socket socket) {
    guest = std::move(socket);
    done = true;
  });
  Relay relay(acceptor.address(), Kind::anywhere());
  const auto ours = tls_proxies(true);
  const Hello hello{.to = 1, .purpose = Purpose::failure_detector};
  const net::Socket line = connect_as(hello, relay.address(), key, Clock::now() + 30s, ours).socket;
  for (const auto deadline = Clock::now() + 30s; !done && Clock::now() < deadline;) std::this_thread::yield();
  REQUIRE(done);
  std::string text{phrase};
  iovec piece{text.data(), text.size()};
  REQUIRE(net::write_some(line, {&piece, 1}).bytes == text.size());
  pollfd query{guest.get(), POLLIN, 0};
  REQUIRE(::poll(&query, 1, 30'000) == 1);
  std::string arrived(text.size(), '\0');
  iovec room{arrived.data(), arrived.size()};
  CHECK(net::read_some(guest, {&room, 1}).bytes == text.size());
  CHECK(arrived == text);
  CHECK(relay.stop().find(phrase) == std::string::npos);
}

// Else a rank could believe that it is known to another one that leaves at that moment, and take its end for a crash.
TEST_CASE("an initiator is accepted when its connection has been handed over, even if the acceptor closes meanwhile") {
  for (const bool closes : {false, true}) {
    CAPTURE(closes);
    std::promise<void> release;
    std::promise<void> first_is_here;
    std::atomic<int> handed_over{0};
    net::Socket kept;
    Acceptor acceptor(OverTcp::anywhere(), {key, 1, tls_proxies(true)});
    acceptor.serve(Purpose::failure_detector,
                   [&, released = release.get_future().share()](const Hello&, net::Socket s) {
                     if (handed_over++ > 0) return static_cast<void>(kept = std::move(s));
                     first_is_here.set_value();
                     released.wait_for(30s);  // the acceptor's thread stays here
                   });
    const Hello hello{.to = 1, .purpose = Purpose::failure_detector, .encrypted = true};
    const auto ours = tls_proxies(true);

    Handshake handshake = Handshake::initiate(key, hello);
    int error = 0;
    net::Socket line = connect_to(*net::parse_address(acceptor.address()), {}, error);
    REQUIRE(net::wait_until_ready(line, POLLOUT, Clock::now() + 30s));
    const auto advance_until_it_ends = [&] {
      while ((error = advance(handshake, line)) == EAGAIN)
        if (!net::wait_until_ready(line, handshake.outgoing().empty() ? POLLIN : POLLOUT, Clock::now() + 30s)) return;
    };
    advance_until_it_ends();
    REQUIRE(handshake.state() == Handshake::State::proved);
    const net::Socket first = connect_as(hello, acceptor.address(), key, Clock::now() + 30s, ours).socket;
    REQUIRE(first_is_here.get_future().wait_for(30s) == std::future_status::ready);

    line = ours->encrypt(std::move(line), handshake);
    REQUIRE(net::wait_until_ready(line, POLLIN, Clock::now() + 30s));
    REQUIRE(advance(handshake, line) == EAGAIN);
    release.set_value();
    if (closes) acceptor.close();  // usually before its thread has woken up
    advance_until_it_ends();
    acceptor.close();  // ends the handler
    CHECK((handshake.state() == Handshake::State::done) == (handed_over == 2));
    CHECK((closes || handed_over == 2));
    CHECK(error != EAGAIN);
  }
}

TEST_CASE("a rank that encrypts and one that does not have nothing to say to each other") {
  for (const bool encrypted : {false, true}) {
    const auto sender = make_node(0, {.tls_proxies = tls_proxies(encrypted), .connect_timeout = 300ms});
    const auto receiver = make_node(1, {.tls_proxies = tls_proxies(!encrypted)});
    sender->transport->set_peers({sender->transport->address(), receiver->transport->address()});
    sender->send(1, 1, 100, 1);
    REQUIRE(sender->sleep_until([&] { return !sender->recorder.failures.empty(); }));
    CHECK(sender->recorder.failures[0].code == ErrorCode::peer_lost);
    CHECK(sender->recorder.failures[0].rank == 1);
    receiver->step();
    CHECK(receiver->recorder.messages.empty());
  }
}

}  // namespace tutti::transport::testing
