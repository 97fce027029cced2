#include "cli/run/store.h"

#include <fmt/core.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>
#include <utility>

#include "cli/base/output.h"
#include "lib/base/environment.h"
#include "lib/security/job_secret.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/store_socket.h"
#include "rendezvous/tcp_server.h"
#include "rendezvous/tcp_store.h"
#include "tutti/error.h"

namespace tutti::cli {
namespace {

using rendezvous::Endpoint;

std::string made_up_id() {
  std::random_device device;
  return fmt::format("{:08x}", device());
}

/// Nodes that share an endpoint belong to one job unless told otherwise.
std::string id_of(const Job& job) { return !job.id.empty() ? job.id : job.nodes > 1 ? "job" : made_up_id(); }

/// TUTTI_TIMEOUT, as the ranks will read it, or five minutes.
std::chrono::milliseconds patience() { return environment::seconds("TUTTI_TIMEOUT").value_or(std::chrono::minutes{5}); }

Endpoint endpoint_of(const Job& job) {
  return {job.host.empty() ? "127.0.0.1" : job.host, static_cast<std::uint16_t>(job.port)};
}

/// If node 0 listened there, it would wait for the others without end.
void refuse_hidden_loopback(const Endpoint& endpoint, std::chrono::steady_clock::time_point deadline) {
  const std::string address = rendezvous::hidden_loopback(endpoint, deadline);
  if (address.empty()) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("run: {} means {} on this host, where the other nodes cannot reach it (see /etc/hosts); give "
                          "the address of a network interface in --rdzv-endpoint, for example from \"tutti doctor\"",
                          endpoint.host, address));
}

bool is_loopback(const Endpoint& endpoint) {
  const auto found = rendezvous::resolve(endpoint, std::chrono::steady_clock::now() + patience());
  return !found.addresses.empty() && found.addresses.front().is_loopback();
}

/// On one node a job without a secret gets a random one.
bool makes_secrets(const Job& job, const rendezvous::AccessPolicy& access_policy) {
  return job.nodes == 1 && access_policy.secret.empty() && !access_policy.insecure;
}

rendezvous::AccessPolicy access_policy_of(const Job& job) {
  rendezvous::AccessPolicy access_policy{job_secret(job.secret_file), job.insecure || insecure_allowed()};
  if (!makes_secrets(job, access_policy)) access_policy.tls_proxies = job_tls_proxies(access_policy.secret, job.tls);
  return access_policy;
}

/// Limits for the store that asks for no proof, so that memory and descriptors remain for the ranks' own store.
rendezvous::ServerLimits limits_of_plain_store() {
  rendezvous::ServerLimits limits;
  limits.total_bytes = std::size_t{128} << 20;
  limits.message_bytes = std::size_t{16} << 20;
  limits.connections = 16'384;
  limits.descriptor_share = 4;
  return limits;
}

}  // namespace

StorePlaces store_places(const Job& job) {
  const Endpoint asked = endpoint_of(job);
  const bool open = (job.insecure || insecure_allowed()) && job_secret(job.secret_file).empty();
  if (job.nodes > 1 || open) return {asked, asked};
  StorePlaces places{asked, {"127.0.0.1", 0}, true};
  // A requested port is one that torchrun would have given to PyTorch's clients.
  if (asked.port != 0 && is_loopback(asked)) std::swap(places.ours.port, places.plain.port);
  return places;
}

struct JobStore::Parts {
  StorePlaces places;
  rendezvous::AccessPolicy access_policy;
  bool makes_secrets = false;  // a new one for each attempt
  bool tls = false;            // even if the environment does not say so
  int max_lost = 0;
  int lost = 0;  // on one node only
  std::unique_ptr<rendezvous::TcpStoreServer> server;
  std::unique_ptr<rendezvous::TcpStoreServer> plain;
  RendezvousUrl rdzv;
  std::unique_ptr<Agreement> agreement;  // several nodes only
  Descriptor outcome_ready;              // one node only
  std::optional<JobOutcome> outcome;
};

void JobStore::await(const Job& job) {
  if (job.nodes == 1) return;
  const Endpoint endpoint = endpoint_of(job);
  const auto deadline = std::chrono::steady_clock::now() + patience();
  if (job.node == 0) {
    rendezvous::await_addresses(endpoint, deadline);  // the name of a pod becomes known some time after its start
    refuse_hidden_loopback(endpoint, std::max(deadline, std::chrono::steady_clock::now() + std::chrono::seconds{5}));
    return;
  }
  const rendezvous::AccessPolicy access_policy = access_policy_of(job);
  const auto resolved = rendezvous::resolve(endpoint, deadline);
  if (!resolved.addresses.empty()) rendezvous::check_access(resolved.addresses.front(), access_policy);
  const auto left = [deadline] {
    const auto now = std::chrono::steady_clock::now();
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::max(deadline, now) - now);
  };
  for (int failures = 0; failures < 2; std::this_thread::sleep_for(std::chrono::milliseconds{50})) {
    const auto store = rendezvous::connect_tcp_store(endpoint, left(), access_policy);
    try {
      if (left().count() == 0 || !Agreement::is_past(store, id_of(job), job.node)) return;
    } catch (const Error&) {
      ++failures;  // that store has gone meanwhile; or it refuses us, and then it will tell the constructor, too
    }
  }
}

JobStore::JobStore(const Job& job) : parts_(std::make_unique<Parts>()) {
  const Endpoint endpoint = endpoint_of(job);
  parts_->places = store_places(job);
  parts_->max_lost = job.max_lost;
  parts_->access_policy = access_policy_of(job);
  parts_->makes_secrets = makes_secrets(job, parts_->access_policy);
  parts_->tls = job.tls;
  const std::string id = id_of(job);
  parts_->rdzv.id = id;
  meet_at(endpoint, endpoint);
  if (job.node == 0) serve();
  if (job.nodes > 1) {
    const Endpoint reached = parts_->server ? parts_->server->endpoint() : endpoint;
    const StoreAccess access{
        .patience = patience(),
        .join = [reached, access_policy = parts_->access_policy](
                    auto limit) { return rendezvous::connect_tcp_store(reached, limit, access_policy); },
        .is_over = [reached] { return rendezvous::nobody_listens(reached, std::chrono::seconds{1}); }};
    parts_->agreement = std::make_unique<Agreement>(job, id, access);
  } else {
    parts_->outcome_ready = Descriptor{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  }
}

JobStore::~JobStore() = default;

const RendezvousUrl& JobStore::rdzv() const { return parts_->rdzv; }

void JobStore::all_well_here() {
  if (parts_->agreement)
    parts_->agreement->all_well_here();
  else
    failed({});
}

void JobStore::lost(const JobOutcome& outcome) {
  if (parts_->agreement) return parts_->agreement->lost(outcome);
  if (++parts_->lost > parts_->max_lost) failed(outcome.beyond(parts_->max_lost));
}

void JobStore::failed(const JobOutcome& outcome) {
  if (parts_->agreement) return parts_->agreement->failed(outcome);
  if (parts_->outcome) return;
  parts_->outcome = outcome;
  ::eventfd_write(parts_->outcome_ready.get(), 1);
}

int JobStore::outcome_fd() const { return parts_->agreement ? parts_->agreement->fd() : parts_->outcome_ready.get(); }

std::optional<JobOutcome> JobStore::outcome() {
  return parts_->agreement ? parts_->agreement->outcome() : parts_->outcome;
}

void JobStore::begin_attempt() {
  ++parts_->rdzv.restart;
  parts_->lost = 0;
  if (parts_->agreement) return parts_->agreement->begin_attempt();
  parts_->outcome.reset();
  eventfd_t count = 0;
  ::eventfd_read(parts_->outcome_ready.get(), &count);
  serve();  // the old store, and with it the keys of the previous attempt, is dropped
}

void JobStore::meet_at(const Endpoint& ours, const Endpoint& plain) {
  parts_->rdzv.rendezvous = "store://" + to_string(ours);
  parts_->rdzv.endpoint = plain;
}

void JobStore::serve() {
  Parts& parts = *parts_;
  const auto start = [](const Endpoint& at, const rendezvous::AccessPolicy& access_policy,
                        const rendezvous::ServerLimits& limits = {}) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{2};
    return std::make_unique<rendezvous::TcpStoreServer>(at, limits, deadline, access_policy);
  };
  parts.server.reset();
  parts.plain.reset();
  if (parts.makes_secrets) {
    parts.access_policy.secret = parts.rdzv.made_secret = Secret::random();
    parts.access_policy.tls_proxies = job_tls_proxies(parts.access_policy.secret, parts.tls);
  }
  Endpoint ours = parts.places.ours;
  parts.server = start(ours, parts.access_policy);
  ours.port = parts.server->endpoint().port;
  if (!parts.server->is_on_loopback() && !parts.server->has_secret())
    say_error(
        fmt::format("tutti: everybody who can reach {} can join this job; use a network you trust\n", to_string(ours)));
  if (!parts.places.two_stores) return meet_at(ours, ours);
  parts.plain = start(parts.places.plain, {}, limits_of_plain_store());
  meet_at(ours, parts.plain->endpoint());
}

void JobStore::leave() {
  const std::uint64_t strangers = parts_->plain ? parts_->plain->figures().strangers : 0;
  if (strangers > 0)
    say_error(
        fmt::format("tutti: turned away {} connection{} of other users of this host to the store at MASTER_PORT\n",
                    strangers, strangers == 1 ? "" : "s"));
  const std::uint64_t unproved = parts_->server ? parts_->server->figures().unproved : 0;
  if (unproved > 0)
    say_error(fmt::format(
        "tutti: turned away {} connection{} to the job's store without a proof of its secret; PyTorch's store "
        "client has none to give: on several nodes it needs tutti run --insecure\n",
        unproved, unproved == 1 ? "" : "s"));
  if (parts_->agreement) parts_->agreement->leave();
}

}  // namespace tutti::cli
