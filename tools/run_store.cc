#include "tools/run_store.h"

#include <fmt/core.h>
#include <sys/eventfd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "lib/base/environment.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/socket.h"
#include "rendezvous/tcp_server.h"
#include "rendezvous/tcp_store.h"
#include "tutti/error.h"

namespace tutti::tools {
namespace {

using rendezvous::Endpoint;

std::string made_up_id() {
  std::random_device device;
  return fmt::format("{:08x}", device());
}

/// TUTTI_TIMEOUT, as the ranks will read it, or five minutes.
std::chrono::milliseconds patience() {
  const double seconds = std::atof(variable("TUTTI_TIMEOUT").value_or("0").c_str());
  return seconds > 0 && seconds < 1e9 ? std::chrono::milliseconds{static_cast<std::int64_t>(seconds * 1000)}
                                      : std::chrono::minutes{5};
}

Endpoint endpoint_of(const Job& job) {
  return {job.host.empty() ? "127.0.0.1" : job.host, static_cast<std::uint16_t>(job.port)};
}

/// Listening there, node 0 would wait for ever for the others.
void refuse_hidden_loopback(const Endpoint& endpoint) {
  const std::string address = rendezvous::hidden_loopback(endpoint, std::chrono::steady_clock::now() + patience());
  if (address.empty()) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("run: {} means {} on this host, where the other nodes cannot reach it (see /etc/hosts); give "
                          "the address of a network interface in --rdzv-endpoint, for example from \"tutti doctor\"",
                          endpoint.host, address));
}

}  // namespace

struct JobStore::Parts {
  Endpoint asked;  // with port 0 where the kernel chooses
  int max_lost = 0;
  int lost = 0;  // one node only
  std::unique_ptr<rendezvous::TcpStoreServer> server;
  Meeting meeting;
  std::unique_ptr<Agreement> agreement;  // several nodes only
  Descriptor verdict_ready;              // one node only
  std::optional<Verdict> verdict;
};

void JobStore::await(const Job& job) {
  const Endpoint endpoint = endpoint_of(job);
  if (job.nodes > 1 && job.node == 0) refuse_hidden_loopback(endpoint);
  if (job.node > 0) rendezvous::connect_tcp_store(endpoint, patience());
}

JobStore::JobStore(const Job& job) : parts_(std::make_unique<Parts>()) {
  parts_->max_lost = job.max_lost;
  Endpoint endpoint = parts_->asked = endpoint_of(job);
  if (job.node == 0) {
    endpoint.port = serve();
    if (!parts_->server->is_on_loopback()) {
      fmt::print(stderr, "tutti: everybody who can reach {} can join this job; use a network you trust\n",
                 to_string(endpoint));
    }
  }
  // Nodes that share an endpoint share a job unless they say otherwise.
  const std::string id = !job.id.empty() ? job.id : job.nodes > 1 ? "job" : made_up_id();
  parts_->meeting = {"store://" + to_string(endpoint), id, endpoint};
  if (job.nodes > 1) {
    const Endpoint reached = parts_->server ? parts_->server->endpoint() : endpoint;
    const StoreAccess access{
        .join = [reached](auto limit) { return rendezvous::connect_tcp_store(reached, limit); },
        .is_over = [reached] { return rendezvous::nobody_listens(reached, std::chrono::seconds{1}); }};
    parts_->agreement = std::make_unique<Agreement>(job, id, access);
  } else {
    parts_->verdict_ready = Descriptor{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  }
}

JobStore::~JobStore() = default;

const Meeting& JobStore::meeting() const { return parts_->meeting; }

void JobStore::all_well_here() {
  if (parts_->agreement)
    parts_->agreement->all_well_here();
  else
    failed({});
}

void JobStore::lost(const Verdict& verdict) {
  if (parts_->agreement) return parts_->agreement->lost(verdict);
  if (++parts_->lost > parts_->max_lost) failed(verdict.beyond(parts_->max_lost));
}

void JobStore::failed(const Verdict& verdict) {
  if (parts_->agreement) return parts_->agreement->failed(verdict);
  if (parts_->verdict) return;
  parts_->verdict = verdict;
  ::eventfd_write(parts_->verdict_ready.get(), 1);
}

int JobStore::verdict_fd() const { return parts_->agreement ? parts_->agreement->fd() : parts_->verdict_ready.get(); }

std::optional<Verdict> JobStore::verdict() {
  return parts_->agreement ? parts_->agreement->verdict() : parts_->verdict;
}

void JobStore::begin_attempt() {
  ++parts_->meeting.restart;
  parts_->lost = 0;
  if (parts_->agreement) return parts_->agreement->begin_attempt();
  parts_->verdict.reset();
  eventfd_t count = 0;
  ::eventfd_read(parts_->verdict_ready.get(), &count);
  // With the store goes what the attempt before left in it.
  parts_->meeting.endpoint.port = serve();
  parts_->meeting.rendezvous = "store://" + to_string(parts_->meeting.endpoint);
}

std::uint16_t JobStore::serve() {
  parts_->server.reset();
  parts_->server = std::make_unique<rendezvous::TcpStoreServer>(parts_->asked);
  return parts_->server->endpoint().port;
}

void JobStore::leave() {
  if (parts_->agreement) parts_->agreement->leave();
}

}  // namespace tutti::tools
