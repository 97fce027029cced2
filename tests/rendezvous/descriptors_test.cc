// A server leaves most descriptors to its process, and copes when there are none.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <string_view>
#include <vector>

#include "lib/base/system_calls.h"
#include "rendezvous/tcp_protocol.h"
#include "rendezvous/tcp_server.h"
#include "rendezvous/tcp_store.h"
#include "tests/rendezvous/harness.h"

namespace tutti::testing {
namespace {

using rendezvous::ServerLimits;
using rendezvous::StoreMessage;
using rendezvous::StoreOp;
using rendezvous::TcpStoreServer;

constexpr rlim_t descriptor_limit = 200;

/// As long as it lives, this process gets no descriptor above `descriptor_limit`.
class FewDescriptors {
 public:
  FewDescriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit lower{descriptor_limit, before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &lower);
  }
  ~FewDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  rlimit before_{};
};

/// A server of a process that may have `descriptor_limit` descriptors. The tests' own ends need more.
std::unique_ptr<TcpStoreServer> serve_with_few_descriptors(const Secret& with, const ServerLimits& limits) {
  const FewDescriptors now;
  return std::make_unique<TcpStoreServer>(rendezvous::Endpoint{"127.0.0.1", 0}, limits, Clock::now() + patience,
                                          rendezvous::AccessPolicy{.secret = with});
}

std::string question() { return greeting() + StoreMessage{StoreOp::key_count}.bytes(); }

}  // namespace

TEST_CASE("strangers take an eighth of the descriptors at most, with a secret and without") {
  for (const Secret& with : {job_secret, no_secret}) {
    CAPTURE(with.empty());
    const auto server = serve_with_few_descriptors(with, {.grace = 0ms, .identify = 10 * patience});
    constexpr std::size_t count = descriptor_limit / 4;
    std::vector<RawClient> strangers;
    for (std::size_t i = 0; i < count; ++i) {
      strangers.emplace_back(server->endpoint());
      strangers.back().send(bytes(with.empty() ? "00" : "80"));
    }
    const std::size_t first_to_stay = count - descriptor_limit / 8;
    for (std::size_t i = 0; i < first_to_stay; ++i) REQUIRE(strangers[i].is_closed());
    CHECK(server->figures().connections <= descriptor_limit / 8);
    // One may have made room for a connection that has not come.
    for (std::size_t i = first_to_stay + 1; i < count; ++i) CHECK(strangers[i].is_silent());
  }
}

TEST_CASE("without a secret all clients together take half of the descriptors at most") {
  const auto server = serve_with_few_descriptors(no_secret, {.idle = 0ms});
  constexpr std::size_t beyond = 10;
  std::vector<RawClient> clients;
  for (std::size_t i = 0; i < descriptor_limit / 2 + beyond; ++i) {
    clients.emplace_back(server->endpoint());
    clients.back().send(question());
    REQUIRE(clients.back().recv(8).size() == 8);
  }
  for (std::size_t i = 0; i < beyond; ++i) REQUIRE(clients[i].is_closed());
  for (std::size_t i = beyond; i < clients.size(); ++i) CHECK(clients[i].is_silent());
}

TEST_CASE("members of a job with a secret may take all descriptors") {
  const auto server = serve_with_few_descriptors(job_secret, {.idle = 0ms});
  std::vector<std::shared_ptr<Store>> members;
  for (std::size_t i = 0; i < descriptor_limit / 2 + 10; ++i) {
    members.push_back(rendezvous::connect_tcp_store(server->endpoint(), patience, {.secret = job_secret}));
    CHECK(members.back()->add("members", 1) == static_cast<std::int64_t>(i) + 1);
  }
  for (const auto& member : members) CHECK(member->get("members") == std::to_string(members.size()));
}

TEST_CASE("out of file descriptors, newcomers wait until somebody has left") {
  const TcpStoreServer server{{"127.0.0.1", 0}};
  tcp_store(server.endpoint().host, server.endpoint().port, patience)->key_count();
  CHECK(eventually([&] { return server.figures().connections == 0; }));
  std::string answer;
  bool was_silent = false;
  {
    const FewDescriptors now;
    std::vector<Descriptor> spares;
    while (Descriptor spare{::fcntl(0, F_DUPFD_CLOEXEC, 0)}) spares.push_back(std::move(spare));
    spares.pop_back();
    RawClient client{server.endpoint()};  // has the last one: the server has none to accept it with
    client.send(question());
    was_silent = client.is_silent();
    spares.pop_back();
    answer = client.recv(8);
  }
  CHECK(was_silent);
  CHECK(answer.size() == 8);
}

TEST_CASE("a server that gets no descriptor says so once, and serves when there is one") {
  const TcpStoreServer server{{"127.0.0.1", 0}};
  const Descriptor before{::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0)};
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  const Descriptor said{ends[0]};
  REQUIRE(::dup2(ends[1], STDERR_FILENO) == STDERR_FILENO);
  ::close(ends[1]);
  system_calls::refuse(SystemCall::accept, EMFILE, 0);
  RawClient client{server.endpoint()};
  client.send(question());
  std::array<char, 1000> text{};
  pollfd query{.fd = said.get(), .events = POLLIN, .revents = 0};
  const bool spoke = ::poll(&query, 1, 20'000) == 1 && ::read(said.get(), text.data(), text.size()) > 0;
  const bool is_silent = client.is_silent();
  const bool spoke_again = ::poll(&query, 1, 0) == 1;
  system_calls::refuse_none();
  ::dup2(before.get(), STDERR_FILENO);
  CHECK(spoke);
  CHECK(std::string_view{text.data()} == fmt::format("tutti: the store at {} cannot accept connections: Too many open "
                                                     "files; raise the limit of open files (ulimit -n)\n",
                                                     to_string(server.endpoint())));
  CHECK(is_silent);
  CHECK_FALSE(spoke_again);
  CHECK(client.recv(8).size() == 8);
}

TEST_CASE("a client that gets no socket says so at once") {
  const TcpStoreServer server{{"127.0.0.1", 0}};
  system_calls::refuse(SystemCall::socket, EMFILE, 0);
  const Error error = error_of([&] { rendezvous::connect_tcp_store(server.endpoint(), patience); });
  system_calls::refuse_none();
  CHECK(error.code() == ErrorCode::system);
  CHECK(contains(error.what(), "Too many open files; raise the limit of open files"));
}

}  // namespace tutti::testing
