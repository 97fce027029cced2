// A store with a secret: a client that proves that it knows the secret may do everything, any other client nothing.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <thread>

#include "lib/security/handshake.h"
#include "rendezvous/store_auth.h"
#include "rendezvous/tcp_protocol.h"
#include "rendezvous/tcp_server.h"
#include "rendezvous/tcp_store.h"
#include "tests/rendezvous/harness.h"

namespace tutti::testing {
namespace {

using rendezvous::connect_tcp_store;
using rendezvous::ServerLimits;
using rendezvous::StoreMessage;
using rendezvous::StoreOp;
using rendezvous::TcpStoreServer;

const Secret other_secret = Secret::from_text("known to others, too!", "test");

TcpStoreServer serve(const Secret& with = job_secret, const ServerLimits& limits = {}) {
  return TcpStoreServer{{"127.0.0.1", 0}, limits, Clock::now() + patience, {.secret = with}};
}

/// What a member does: both ways, and with an answer.
void check_serves_member(const TcpStoreServer& server, const Secret& with = job_secret) {
  const auto store = connect_tcp_store(server.endpoint(), patience, {.secret = with});
  store->set("colour", "green");
  CHECK(store->get("colour") == "green");
  store->erase("colour");
}

std::string complaint(const TcpStoreServer& server, const Secret& with) {
  const Error error = error_of([&] {
    const auto store = connect_tcp_store(server.endpoint(), patience, {.secret = with});
    store->get("colour");
  });
  CHECK(error.code() == ErrorCode::rendezvous);
  CHECK(contains(error.what(), to_string(server.endpoint())));
  return error.what();
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void tell(Handshake& handshake, std::string_view bytes) {
  std::ranges::copy(std::as_bytes(std::span{bytes}), handshake.incoming().begin());
  handshake.received(bytes.size());
}

/// The bytes of a client that proves itself, as far as its next word.
struct Dialogue {
  explicit Dialogue(const Secret& with = job_secret)
      : key(rendezvous::store_key(with)), handshake(Handshake::initiate(key, {.purpose = Purpose::store})) {}

  std::string hello() {
    const std::string bytes = "\x80" + text_of(handshake.outgoing());
    handshake.sent(Handshake::hello_size);
    return bytes;
  }
  std::string proof(std::string_view answer) {
    tell(handshake, answer);
    return text_of(handshake.outgoing());
  }

  Secret key;
  Handshake handshake;
};

}  // namespace

TEST_CASE("members meet in a store with a secret") {
  const TcpStoreServer server = serve();
  CHECK(server.has_secret());
  check_serves_member(server);
  run_threads(8, [&](int i) {
    const auto store = connect_tcp_store(server.endpoint(), patience, {.secret = job_secret});
    store->set(std::to_string(i), "here");
    for (int j = 0; j < 8; ++j) CHECK(store->get(std::to_string(j)) == "here");
  });
  CHECK(server.figures().unproved == 0);
}

TEST_CASE("without the secret, or with another, a client is refused and told what to do") {
  const TcpStoreServer server = serve();
  CHECK(contains(complaint(server, other_secret), "did not prove that it knows this job's secret"));
  CHECK(contains(complaint(server, no_secret), "wants a secret (TUTTI_SECRET or TUTTI_SECRET_FILE)"));
  CHECK(server.figures().unproved == 1);
  const TcpStoreServer open = serve(no_secret);
  CHECK_FALSE(open.has_secret());
  CHECK(contains(complaint(open, job_secret), "started without one or with another"));
  check_serves_member(open, no_secret);
  check_serves_member(server);
}

TEST_CASE("where clients choose, those that encrypt and those that do not use one store") {
  const TcpStoreServer server{
      {"127.0.0.1", 0}, {}, Clock::now() + patience, {.secret = job_secret, .clients_choose = true}};
  const auto plain = connect_tcp_store(server.endpoint(), patience, {.secret = job_secret});
  const auto encrypted = connect_tcp_store(server.endpoint(), patience,
                                           {.secret = job_secret, .tls_proxies = std::make_shared<TlsProxies>()});
  plain->set("colour", "green");
  CHECK(encrypted->get("colour") == "green");
  encrypted->set("colour", "blue");
  encrypted->key_count();  // its answer comes after what was set
  CHECK(plain->get("colour") == "blue");
  CHECK(contains(complaint(server, other_secret), "did not prove that it knows this job's secret"));
}

TEST_CASE("what somebody adds to the answer of a store that encrypts is not taken for the store's") {
  std::array<int, 2> ends{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
  Descriptor ours{ends[0]};
  const Descriptor theirs{ends[1]};
  const timeval limit{.tv_sec = 30, .tv_usec = 0};
  REQUIRE(::setsockopt(theirs.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
  REQUIRE(::fcntl(ours.get(), F_SETFL, O_NONBLOCK) == 0);
  const Secret key = rendezvous::store_key(job_secret);
  std::thread server([&] {
    Handshake handshake = Handshake::accept(key, Purpose::store, 0, true);
    std::string hello(1 + Handshake::hello_size, '\0');
    if (::recv(theirs.get(), hello.data(), hello.size(), MSG_WAITALL) != std::ssize(hello)) return;
    tell(handshake, std::string_view{hello}.substr(1));
    const std::string answer =
        text_of(handshake.outgoing()) + "RW" + std::string(100, '?');  // looks like the end, and more
    static_cast<void>(::send(theirs.get(), answer.data(), answer.size(), MSG_NOSIGNAL));
    while (::recv(theirs.get(), hello.data(), hello.size(), 0) > 0) continue;
  });
  TlsProxies tls_proxies;
  CHECK(rendezvous::prove(ours, key, Clock::now() + patience, &tls_proxies) == rendezvous::Proof::closed);
  ours.reset();
  server.join();
}

TEST_CASE("PyTorch's client is refused before any of its requests is looked at") {
  const TcpStoreServer server = serve();
  RawClient torch{server.endpoint()};
  torch.send(greeting() + StoreMessage{StoreOp::set}.text("k").text("v").bytes());
  CHECK(torch.is_closed());
  const auto member = connect_tcp_store(server.endpoint(), patience, {.secret = job_secret});
  CHECK(member->key_count() == 0);
  CHECK(server.figures().requests == 1);
}

TEST_CASE("strangers' messages are neither answered nor kept") {
  const TcpStoreServer server = serve();
  const std::size_t before = server.figures().memory_bytes;
  Dialogue member;
  const std::string hello = member.hello();
  for (const std::string& words : {
           std::string{"GET / HTTP/1.1\r\n\r\n"},
           std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11),
           std::string(1000, '\xff'),
           std::string(1000, '\0'),
           "\x80" + std::string(88, 'x'),
           "\x80" + greeting() + std::string(60, 'x'),
           hello.substr(0, 7) + "\1" + hello.substr(8),  // another purpose: a link's handshake
           "\x81" + hello.substr(1),
           StoreMessage{StoreOp::set}.u64(~std::uint64_t{0}).bytes(),
       }) {
    CAPTURE(hex(words.substr(0, 12)));
    RawClient stranger{server.endpoint()};
    stranger.send(words);
    CHECK(stranger.is_closed());
    CHECK(server.figures().memory_bytes == before);
  }
  RawClient almost{server.endpoint()};
  almost.send(hello + std::string(32, 'p') + greeting());
  CHECK(almost.recv(1000).size() == Handshake::answer_size);
  check_serves_member(server);
}

TEST_CASE("a recorded proof opens nothing when it is played again") {
  const TcpStoreServer server = serve();
  Dialogue member;
  RawClient first{server.endpoint()};
  const std::string hello = member.hello();
  first.send(hello);
  const std::string proof = member.proof(first.recv(Handshake::answer_size));
  first.send(proof);
  CHECK(first.recv(1) == "W");
  RawClient second{server.endpoint()};
  second.send(hello + proof + greeting() + StoreMessage{StoreOp::key_count}.bytes());
  CHECK(second.recv(1000).size() == Handshake::answer_size);
}

TEST_CASE("a proof that comes byte by byte, with requests right behind it, is understood") {
  const TcpStoreServer server = serve();
  Dialogue member;
  RawClient client{server.endpoint()};
  for (const char byte : member.hello()) client.send({&byte, 1});
  for (const char byte :
       member.proof(client.recv(Handshake::answer_size)) + greeting() + StoreMessage{StoreOp::key_count}.bytes())
    client.send({&byte, 1});
  CHECK(client.recv(9) == "W" + StoreMessage{}.u64(0).bytes());
}

TEST_CASE("a stranger that writes one byte now and then does not keep its place") {
  const TcpStoreServer server = serve(job_secret, {.identify = 150ms});
  Dialogue member;
  const std::string hello = member.hello();
  RawClient slow{server.endpoint()};
  const auto start = Clock::now();
  std::size_t at = 0;
  CHECK(eventually([&] {
    if (at < hello.size() / 2 && Clock::now() - start > 10ms * static_cast<int>(at)) slow.send(hello.substr(at++, 1));
    return !slow.is_silent();
  }));
  CHECK(slow.is_closed());
  CHECK(Clock::now() - start < 20s);
  check_serves_member(server);
}

TEST_CASE("a store that others could reach needs a secret, or the word that it needs none") {
  const auto listen = [](const rendezvous::AccessPolicy& access_policy) {
    return error_of([&] { TcpStoreServer{{"0.0.0.0", 0}, {}, Clock::now() + patience, access_policy}; });
  };
  const Error refused = listen({});
  CHECK(refused.code() == ErrorCode::invalid_argument);
  for (const char* remedy : {"TUTTI_SECRET", "TUTTI_SECRET_FILE", "--insecure", "TUTTI_INSECURE=1", "openssl rand"})
    CHECK(contains(refused.what(), remedy));
  CHECK(listen({.insecure = true}).what() == std::string{});
  CHECK(listen({.secret = job_secret}).what() == std::string{});
}

}  // namespace tutti::testing
