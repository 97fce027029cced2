// A store that asks for no proof turns away other users of the host.

#include "rendezvous/socket_owner.h"

#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <utility>

#include "rendezvous/store_socket.h"
#include "rendezvous/tcp_protocol.h"
#include "rendezvous/tcp_server.h"
#include "tests/rendezvous/harness.h"
#include "tests/transport/no_descriptors.h"

namespace tutti::testing {
namespace {

using rendezvous::StoreMessage;
using rendezvous::StoreOp;
using rendezvous::TcpStoreServer;

/// Whether a process of that user is answered.
bool is_served(uid_t user, const TcpStoreServer& server) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setresuid(user, user, user) != 0) ::_exit(2);
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

}  // namespace

TEST_CASE("without a secret the store on loopback serves its user and root, and no other user of the host") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root can become another user");
    return;
  }
  const TcpStoreServer server{any_port};
  CHECK(is_served(0, server));
  CHECK_FALSE(is_served(65'534, server));
  CHECK(server.figures().strangers == 1);

  const TcpStoreServer insecure{any_port, {}, Clock::now() + patience, {.insecure = true}};
  CHECK(is_served(65'534, insecure));
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

}  // namespace tutti::testing
