// Without a secret a store turns away other users of the host, and its clients do not use the store of one.

#include "rendezvous/socket_owner.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <optional>
#include <tuple>
#include <utility>

#include "rendezvous/store_socket.h"
#include "rendezvous/tcp_protocol.h"
#include "rendezvous/tcp_server.h"
#include "rendezvous/tcp_store.h"
#include "tests/rendezvous/harness.h"
#include "tests/transport/no_descriptors.h"

namespace tutti::testing {
namespace {

using rendezvous::StoreMessage;
using rendezvous::StoreOp;
using rendezvous::TcpStoreServer;

constexpr uid_t nobody = 65'534;

/// Becomes that user, or ends.
void become(uid_t user) {
  if (::setresuid(user, user, user) != 0) ::_exit(2);
}

/// Whether a process of that user is answered.
bool is_served(uid_t user, const TcpStoreServer& server) {
  const pid_t child = ::fork();
  if (child == 0) {
    become(user);
    RawClient client{server.endpoint()};
    client.send(greeting() + StoreMessage{StoreOp::key_count}.bytes());
    ::_exit(client.recv(8).size() == 8 ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  REQUIRE(WIFEXITED(status));
  REQUIRE(WEXITSTATUS(status) != 2);
  return WEXITSTATUS(status) == 0;
}

/// A process of another user, which does `work` and then stays. The work may tell a number.
class OtherUser {
 public:
  using Tell = std::function<void(std::uint16_t number)>;

  explicit OtherUser(const std::function<void(const Tell& tell)>& work) {
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    heard_ = Descriptor{ends[0]};
    const Descriptor said{ends[1]};
    child_ = ::fork();
    if (child_ != 0) return;
    become(nobody);
    try {
      work([&](std::uint16_t number) { static_cast<void>(::write(said.get(), &number, sizeof number) == 0); });
      for (;;) ::pause();
    } catch (...) {
      ::_exit(1);
    }
  }
  ~OtherUser() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  OtherUser(const OtherUser&) = delete;
  OtherUser& operator=(const OtherUser&) = delete;

  /// The next number that it tells; 0: it has ended.
  std::uint16_t hear() const {
    std::uint16_t number = 0;
    return ::read(heard_.get(), &number, sizeof number) == sizeof number ? number : 0;
  }

 private:
  Descriptor heard_;
  pid_t child_ = -1;
};

Descriptor accept_one(const Descriptor& listener) {
  Descriptor accepted;
  eventually([&] {
    accepted = Descriptor{::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)};
    return static_cast<bool>(accepted);
  });
  return accepted;
}

std::uint16_t port_of(const Descriptor& listener) { return net::local_address(listener).port(); }

bool is_root() {
  if (::geteuid() == 0) return true;
  MESSAGE("skipped: only root can become another user");
  return false;
}

}  // namespace

TEST_CASE("without a secret the store on loopback serves its user and root, and no other user of the host") {
  if (!is_root()) return;
  const TcpStoreServer server{any_port};
  CHECK(is_served(0, server));
  CHECK_FALSE(is_served(nobody, server));
  CHECK(server.figures().strangers == 1);

  const TcpStoreServer insecure{any_port, {}, Clock::now() + patience, {.insecure = true}};
  CHECK(is_served(nobody, insecure));
}

TEST_CASE("bytes that a client leaves behind are not taken for root's") {
  // A socket that nobody holds any more is said to belong to root.
  const Descriptor listener = listen_on(any_port);
  std::optional<RawClient> client{rendezvous::endpoint_of(net::local_address(listener))};
  client->send(bytes("00"));
  REQUIRE(eventually([&] {
    pollfd ready{listener.get(), POLLIN, 0};
    return ::poll(&ready, 1, 0) == 1;
  }));
  const Descriptor accepted{::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)};
  rendezvous::SocketOwners owners;
  const auto alive = owners.of_peer(accepted.get());
  if (!alive) {
    MESSAGE("skipped: this kernel does not tell whose a socket is");
    return;
  }
  CHECK(alive->open);
  CHECK(alive->user == ::geteuid());
  {
    const transport::testing::NoDescriptors now;
    const auto found = owners.of_peer(accepted.get());
    CHECK((found && found->open && found->user == ::geteuid()));  // nobody gets in unseen
  }
  client.reset();
  CHECK(eventually([&] { return !owners.of_peer(accepted.get())->open; }));
}

TEST_CASE("without a secret a client does not use the store of another user on loopback, unless it trusts everybody") {
  if (!is_root()) return;
  const OtherUser other{[](const OtherUser::Tell& tell) {
    const Descriptor listener = listen_on(any_port);
    tell(port_of(listener));
    for (;;) accept_one(listener);  // and close it
  }};
  const rendezvous::Endpoint place{"127.0.0.1", other.hear()};
  REQUIRE(place.port != 0);
  const Error error = error_of([&] { rendezvous::connect_tcp_store(place, patience); });
  CHECK(error.code() == ErrorCode::rendezvous);
  CHECK_MESSAGE(contains(error.what(), "belongs to user 65534 of this host"), error.what());
  CHECK(contains(error.what(), "TUTTI_SECRET"));
  CHECK_NOTHROW(rendezvous::connect_tcp_store(place, patience, {.insecure = true}));
}

TEST_CASE("a user's client uses the store that root serves") {
  if (!is_root()) return;
  const Descriptor listener = listen_on(any_port);
  const pid_t child = ::fork();
  if (child == 0) {
    become(nobody);
    const rendezvous::Endpoint place{"127.0.0.1", port_of(listener)};
    const RawClient client{place};
    const auto owner = rendezvous::SocketOwners{}.of_server(client.get());
    ::_exit(!owner || owner->is_trusted() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
}

TEST_CASE("a server is who has accepted a connection, or who listens as long as nobody has") {
  rendezvous::Endpoint listens, place;
  SUBCASE("at one address") { listens.host = place.host = "127.0.0.1"; }
  SUBCASE("at all addresses of one kind") { std::tie(listens.host, place.host) = std::pair{"0.0.0.0", "127.0.0.1"}; }
  SUBCASE("at all addresses of both kinds") { std::tie(listens.host, place.host) = std::pair{"::", "127.0.0.1"}; }
  SUBCASE("at an address of IPv6") { listens.host = place.host = "::1"; }
  std::optional<Descriptor> listener;
  if (error_of([&] { listener = listen_on(listens); }).code() == ErrorCode::rendezvous) {
    MESSAGE("no IPv6 on this host");
    return;
  }
  place.port = port_of(*listener);
  rendezvous::SocketOwners owners;
  RawClient first{place}, second{place}, third{place};
  const auto waiting = owners.of_server(first.get());
  if (!waiting) {
    MESSAGE("skipped: this kernel does not tell whose a socket is");
    return;
  }
  CHECK(waiting->is_trusted());
  const auto accept = [&](RawClient& client) {
    client.send(bytes("00"));  // silent ones are not accepted
    Descriptor accepted = accept_one(*listener);
    REQUIRE(accepted);
    CHECK(owners.of_server(client.get())->is_trusted());
    return accepted;
  };
  Descriptor reads = accept(first), does_not = accept(second);
  {
    const transport::testing::NoDescriptors now;
    CHECK(owners.of_server(first.get())->is_trusted());
  }
  // What they have sent can still be read, but nobody stands for it any more, though somebody listens at their port.
  for (const Descriptor* one : {&reads, &does_not}) CHECK(::send(one->get(), "x", 1, 0) == 1);
  char read = 0;
  CHECK(::recv(reads.get(), &read, 1, 0) == 1);  // so that it ends in good order, and the other one at once
  reads.reset();
  does_not.reset();
  CHECK_FALSE(owners.of_server(first.get())->open);
  CHECK_FALSE(owners.of_server(second.get())->open);
  CHECK(owners.of_server(third.get())->is_trusted());
  listener.reset();
  CHECK(eventually([&] { return !owners.of_server(third.get())->open; }));
}

TEST_CASE("another user who has accepted a connection is found out although the port is ours by now") {
  if (!is_root()) return;
  const OtherUser other{[](const OtherUser::Tell& tell) {
    std::optional<Descriptor> listener{listen_on(any_port)};
    tell(port_of(*listener));
    const Descriptor accepted = accept_one(*listener);
    listener.reset();
    tell(1);
    for (;;) ::pause();
  }};
  const rendezvous::Endpoint place{"127.0.0.1", other.hear()};
  REQUIRE(place.port != 0);
  RawClient client{place};
  rendezvous::SocketOwners owners;
  const auto waiting = owners.of_server(client.get());
  if (!waiting) {
    MESSAGE("skipped: this kernel does not tell whose a socket is");
    return;
  }
  CHECK(waiting->user == nobody);
  client.send(bytes("00"));
  REQUIRE(other.hear() == 1);
  const Descriptor listener = listen_on(place);
  const auto owner = owners.of_server(client.get());
  CHECK((owner->open && owner->user == nobody));
}

}  // namespace tutti::testing
