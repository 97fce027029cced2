#include "lib/startup/join.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <system_error>
#include <utility>
#include <vector>

#include "lib/base/host.h"
#include "lib/base/quota.h"
#include "lib/base/system_error_text.h"
#include "lib/startup/job_key.h"
#include "lib/startup/rank_info.h"
#include "rendezvous/attendance.h"
#include "transport/shm/address.h"
#include "transport/shm/shm_transport.h"
#include "transport/tcp/tcp_transport.h"

namespace tutti::detail {
namespace {

using transport::ShmTransport;
using transport::TcpTransport;

/// If every rank has a core of its own, a short spin catches an answer that is about to arrive; if ranks share cores,
/// it only delays the awaited peer. Yields follow in both cases: they cost little on an idle core, and on one that
/// another process wants they save a whole time slice. Sleep comes last, since a wake-up costs 5 to 20 us.
constexpr Patience own_core{.spins = 200, .yields = 2000};
constexpr Patience shared_core{.spins = 0, .yields = 200};
/// The first wait lasts until the others have completed their set-up, for which they need the cores.
constexpr Patience first_wait{.spins = 0, .yields = 4};

/// Ranks by host, in rank order; same_host() decides which ranks share a host.
std::vector<std::vector<int>> hosts_of(const std::vector<RankInfo>& rank_infos) {
  std::vector<std::vector<int>> hosts;
  for (int rank = 0; rank < static_cast<int>(rank_infos.size()); ++rank) {
    const RankInfo& rank_info = rank_infos[static_cast<std::size_t>(rank)];
    const auto host = std::find_if(hosts.begin(), hosts.end(), [&](const std::vector<int>& ranks) {
      const RankInfo& first = rank_infos[static_cast<std::size_t>(ranks.front())];
      return transport::same_host(first.shm, rank_info.shm) && first.domain == rank_info.domain;
    });
    if (host == hosts.end()) {
      hosts.push_back({rank});
    } else {
      host->push_back(rank);
    }
  }
  return hosts;
}

/// The number of cores that these ranks of one host have together.
int cores_of(const std::vector<int>& ranks, const std::vector<RankInfo>& rank_infos) {
  std::vector<std::string> allowed;
  int quota = 0;
  for (const int rank : ranks) {
    const RankInfo& rank_info = rank_infos[static_cast<std::size_t>(rank)];
    allowed.push_back(rank_info.allowed);
    quota = std::max(quota, rank_info.quota);
  }
  return cores_together(allowed, quota);
}

const std::vector<int>& host_of(const std::vector<std::vector<int>>& hosts, int rank) {
  return *std::find_if(hosts.begin(), hosts.end(), [rank](const std::vector<int>& ranks) {
    return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
  });
}

/// Tests shared memory among the ranks of this host with a real transfer, and tells the others. Empty: it works; else
/// the first rank's reason. Every rank calls. `trouble`: why this rank has no `shm` although it is wanted.
std::string agree_on_shm(ShmTransport* shm, const std::string& trouble, const std::vector<int>& local,
                         const std::vector<RankInfo>& rank_infos, const JoinOptions& options,
                         rendezvous::Attendance& attendance) {
  std::vector<std::string> addresses;
  for (const int rank : local) addresses.push_back(rank_infos[static_cast<std::size_t>(rank)].shm);
  const auto offered = std::ranges::count_if(addresses, transport::offers_shm);
  std::string outcome = trouble;
  if (local.size() == 1) {
    outcome.clear();  // no rank would use it
  } else if (std::cmp_equal(offered, local.size())) {
    const auto position = std::find(local.begin(), local.end(), options.rank) - local.begin();
    outcome = shm->probe(addresses, static_cast<int>(position), options.deadline).value_or("");
  } else if (!shm && outcome.empty() && offered > 0) {
    outcome = "it was told to do without";
  }
  const auto outcomes = attendance.exchange_outcomes(outcome);
  for (const int rank : local)
    if (!outcomes[static_cast<std::size_t>(rank)].empty())
      return fmt::format("rank {}: {}", rank, outcomes[static_cast<std::size_t>(rank)]);
  return "";
}

std::vector<RankInfo> exchange_rank_infos(const RankInfo& mine, rendezvous::Attendance& attendance) {
  std::vector<RankInfo> rank_infos;
  for (const std::string& text : attendance.exchange_rank_infos(mine.encode()))
    rank_infos.push_back(RankInfo::decode(text, static_cast<int>(rank_infos.size())));
  return rank_infos;
}

void fill_peers(Context& context, const std::vector<RankInfo>& rank_infos) {
  context.board_limit = std::ranges::min(rank_infos, {}, &RankInfo::board_limit).board_limit;
  context.peers.resize(rank_infos.size());
  for (std::size_t i = 0; i < rank_infos.size(); ++i) {
    context.peers[i].host = rank_infos[i].host;
    context.peers[i].process = rank_infos[i].process;
    context.peers[i].traces = rank_infos[i].traces;
  }
}

std::vector<std::string> names_of(const Context& context) {
  std::vector<std::string> names;
  for (std::size_t rank = 0; rank < context.peers.size(); ++rank)
    names.push_back(fmt::format("rank {} (host {}, {})", rank, context.peers[rank].host, context.peers[rank].process));
  return names;
}

void set_failure_router(Context& context) {
  context.failure_router =
      std::make_unique<FailureRouter>(context.rank, names_of(context), context.engine, context.log);
}

/// Starts the failure detector if all ranks have published an address; otherwise there is none.
void begin_detecting(Context& context, std::unique_ptr<FailureDetector> detector,
                     const std::vector<RankInfo>& rank_infos, const JoinOptions& options) {
  std::vector<Watched> ranks;
  const std::vector<std::string> names = names_of(context);
  for (std::size_t rank = 0; rank < rank_infos.size(); ++rank) {
    ranks.push_back({rank_infos[rank].acceptor, names[rank]});
  }
  detector->begin(std::move(ranks), {.beat = options.lost_after / 10, .lost = options.lost_after},
                  *context.failure_router, options.deadline);
  context.failure_router->set_detector(std::move(detector));
}

/// All ranks in one process: one transport, nothing to probe.
void join_threads(Context& context, const JoinOptions& options, rendezvous::Attendance& attendance) {
  auto transport = std::make_unique<transport::InprocTransport>(options.inproc, options.rank, context.engine->reactor(),
                                                                context.copy_policy);
  const RankInfo mine{.host = host_name(),
                      .process = fmt::format("thread {}", options.rank),
                      .quota = quota_cores(),
                      .allowed = allowed_cores(),
                      .acceptor = transport->address(),
                      .board_limit = options.board_limit};
  const std::vector<RankInfo> rank_infos = exchange_rank_infos(mine, attendance);
  std::vector<std::string> addresses;
  for (const RankInfo& rank_info : rank_infos) addresses.push_back(rank_info.acceptor);
  fill_peers(context, rank_infos);
  for (Peer& peer : context.peers) {
    peer.same_host = true;
    peer.transport = transport.get();
  }
  context.threads = true;
  context.local_rank = options.rank;
  context.local_size = options.size;
  std::vector<int> everyone(rank_infos.size());
  std::iota(everyone.begin(), everyone.end(), 0);
  context.oversubscribed = options.size > cores_of(everyone, rank_infos);
  transport->set_peers(addresses);
  context.engine->add(std::move(transport));
  set_failure_router(context);
}

/// What this rank publishes about itself. The shared-memory address also identifies the host, so it is published even
/// if it is not used.
RankInfo rank_info_of(const Context& context, const JoinOptions& options, const ShmTransport* shm,
                      const TcpTransport* tcp, const transport::Acceptor& acceptor) {
  return {.host = host_name(),
          .process = fmt::format("pid {}", getpid()),
          .quota = quota_cores(),
          .allowed = allowed_cores(),
          .shm = shm ? shm->address() : transport::host_identity(),
          .acceptor = acceptor.address(),
          .tcp = tcp != nullptr,
          .domain = options.domain,
          .fingerprint = fingerprint(context.key),
          .encrypted = options.tls_proxies != nullptr,
          .board_limit = options.board_limit,
          .traces = context.recorder != nullptr,
          .families = options.families};
}

/// Decides per peer: shared memory within this host if it works, else TCP.
void choose_transports(Context& context, const std::vector<RankInfo>& rank_infos, const std::vector<int>& local,
                       ShmTransport* shm, TcpTransport* tcp, const std::string& shm_trouble,
                       const std::string& tcp_trouble) {
  std::vector<std::string> shm_addresses(rank_infos.size());
  std::vector<std::string> tcp_addresses(rank_infos.size());
  for (std::size_t i = 0; i < rank_infos.size(); ++i) {
    const int rank = static_cast<int>(i);
    Peer& peer = context.peers[i];
    peer.same_host = std::find(local.begin(), local.end(), rank) != local.end();
    if (rank == context.rank) continue;
    if (shm && peer.same_host && shm_trouble.empty()) {
      shm_addresses[i] = rank_infos[i].shm;
      peer.transport = shm;
    } else if (tcp && rank_infos[i].tcp) {
      tcp_addresses[i] = rank_infos[i].acceptor;
      peer.transport = tcp;
    } else {
      throw Error{ErrorCode::rendezvous,
                  fmt::format("rank {} (host {}) cannot be reached from rank {} (host {}): {}{}", rank, peer.host,
                              context.rank, rank_infos[static_cast<std::size_t>(context.rank)].host,
                              !peer.same_host       ? "it is on another host"
                              : shm_trouble.empty() ? "one of them has no shared memory"
                                                    : "shared memory failed: " + shm_trouble,
                              tcp_trouble.empty() ? ". Allow tcp in TUTTI_TRANSPORT" : "; TCP failed: " + tcp_trouble),
                  rank};
    }
  }
  if (shm) shm->set_peers(shm_addresses);
  if (tcp) tcp->set_peers(tcp_addresses);
}

void check_secrets(const std::vector<RankInfo>& rank_infos, int rank) {
  std::vector<std::string> fingerprints;
  for (const RankInfo& rank_info : rank_infos) fingerprints.push_back(rank_info.fingerprint);
  check_fingerprints(fingerprints, rank);
}

/// A rank that encrypts and one that does not would wait for each other until the deadline.
void check_encryption(const std::vector<RankInfo>& rank_infos, int rank) {
  const bool mine = rank_infos[static_cast<std::size_t>(rank)].encrypted;
  for (std::size_t other = 0; other < rank_infos.size(); ++other)
    if (rank_infos[other].encrypted != mine)
      throw Error{ErrorCode::rendezvous,
                  fmt::format("rank {} encrypts its connections and rank {} does not: set TUTTI_TLS=1 for all ranks "
                              "(tutti run --tls does), or for none",
                              mine ? rank : static_cast<int>(other), mine ? static_cast<int>(other) : rank),
                  static_cast<int>(other)};
}

/// The transport, if it is wanted and the system grants its resources; else null, and `trouble` has the reason.
template <class Kind, class... Arguments>
std::unique_ptr<Kind> make(bool wanted, std::string& trouble, Arguments&&... arguments) {
  if (!wanted) return nullptr;
  try {
    return std::make_unique<Kind>(std::forward<Arguments>(arguments)...);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::system) throw;
    trouble = error.what();
  } catch (const std::system_error& error) {  // Asio's, and threads'
    trouble = refusal(error.code().value());
  }
  return nullptr;
}

/// For links, if peers are reached by TCP, and for the failure detector, which uses TCP even within one host.
std::shared_ptr<transport::Acceptor> open_acceptor(const Context& context, const JoinOptions& options) {
  const auto address = net::parse_address(options.bind_address, 0);
  if (!address)
    throw Error{ErrorCode::invalid_argument,
                fmt::format("cannot listen on \"{}\": that is not a numeric address", options.bind_address)};
  return std::make_shared<transport::Acceptor>(
      *address, transport::Credentials{context.key, options.rank, options.tls_proxies},
      transport::AcceptorOptions{.congestion = options.congestion, .lost_after = options.lost_after}, context.log);
}

/// Returns the ranks on this host, and finds out whether ranks outnumber cores anywhere.
std::vector<int> settle(Context& context, const std::vector<RankInfo>& rank_infos, ShmTransport* shm,
                        const JoinOptions& options) {
  const auto hosts = hosts_of(rank_infos);
  warn_of_open_key(options, hosts.size(), context.log);
  const auto& local = host_of(hosts, context.rank);
  context.local_size = static_cast<int>(local.size());
  context.local_rank = static_cast<int>(std::find(local.begin(), local.end(), context.rank) - local.begin());
  const std::size_t threads = options.tls_proxies ? 2 : 1;  // busy threads of a rank
  for (const auto& ranks : hosts) {
    const bool share_cores = std::cmp_greater(threads * ranks.size(), cores_of(ranks, rank_infos));
    context.oversubscribed |= share_cores;
    if (share_cores && shm && &ranks == &local) shm->share_cores();
  }
  return local;
}

/// "0 1 2 3"
std::string list(const std::vector<int>& ranks) { return fmt::format("{}", fmt::join(ranks, " ")); }

/// Logs the transport to each rank.
void tell(const Context& context, const RankInfo& mine, const std::vector<int>& local, const std::string& shm_trouble) {
  using Subsystem = Log::Subsystem;
  if (!context.log.shows(Log::Level::info, Subsystem::init) && !context.log.shows(Log::Level::info, Subsystem::net) &&
      !context.log.shows(Log::Level::info, Subsystem::shm))
    return;
  std::map<std::string, std::vector<int>> by_transport;
  for (int rank = 0; rank < context.size; ++rank)
    if (const auto* transport = context.peers[static_cast<std::size_t>(rank)].transport)
      by_transport[transport->name()].push_back(rank);
  context.log.info(Subsystem::init,
                   fmt::format("{} of {} ranks are on host {} (ranks {}), local rank {}; {} cores{}", local.size(),
                               context.size, mine.host, list(local), context.local_rank, available_cores(),
                               context.oversubscribed ? "; some host has more ranks than cores" : ""));
  context.log.info(Subsystem::net,
                   fmt::format("accepts connections at {}{}", mine.acceptor, mine.encrypted ? ", encrypted" : ""));
  if (!shm_trouble.empty()) context.log.info(Subsystem::shm, "shared memory is not used: " + shm_trouble);
  for (const auto& [name, ranks] : by_transport)
    context.log.info(name == "shm" ? Subsystem::shm : Subsystem::net,
                     fmt::format("talks over {} to ranks {}", name, list(ranks)));
}

}  // namespace

void join_ranks(Context& context, const JoinOptions& options) {
  context.rank = options.rank;
  context.size = options.size;
  context.store = options.store;
  context.engine = std::make_shared<Engine>(own_core);
  context.engine->set_recorder(context.recorder.get());
  context.inline_messages = options.inline_messages;
  if (options.size == 1 && !options.store) {
    fill_peers(context, {{.host = host_name(), .process = fmt::format("pid {}", getpid())}});
    set_failure_router(context);
    return;
  }
  rendezvous::Attendance attendance{options.store, options.rank, options.size, options.deadline};
  if (options.inproc) {
    join_threads(context, options, attendance);
  } else {
    context.key = agree_on_key(options, attendance.store());
    const std::string token = context.key.derive("shared memory").reveal().substr(0, transport::job_token_size);
    auto& reactor = context.engine->reactor();
    const auto acceptor = open_acceptor(context, options);
    const transport::TcpOptions tcp_options{.acceptor = acceptor,
                                            .key = context.key,
                                            .tls_proxies = options.tls_proxies,
                                            .congestion = options.congestion,
                                            .log = context.log,
                                            .lost_after = options.lost_after};
    std::string no_shm;
    std::string no_tcp;
    auto shm = make<ShmTransport>(options.shm, no_shm, options.rank, token, reactor, context.log, context.copy_policy);
    auto tcp = make<TcpTransport>(options.tcp, no_tcp, options.rank, tcp_options, reactor);
    auto detector = std::make_unique<FailureDetector>(options.rank, acceptor, context.key, options.tls_proxies);
    const RankInfo mine = rank_info_of(context, options, shm.get(), tcp.get(), *acceptor);
    const std::vector<RankInfo> rank_infos = exchange_rank_infos(mine, attendance);
    fill_peers(context, rank_infos);
    check_secrets(rank_infos, options.rank);
    check_encryption(rank_infos, options.rank);
    check_families(rank_infos);
    const std::vector<int> local = settle(context, rank_infos, shm.get(), options);
    const std::string trouble = agree_on_shm(shm.get(), no_shm, local, rank_infos, options, attendance);
    if (!trouble.empty() && context.local_rank == 0)
      context.log.warn(fmt::format("shared memory is not used on host {}: {}", mine.host, trouble));
    choose_transports(context, rank_infos, local, shm.get(), tcp.get(), trouble, no_tcp);
    tell(context, mine, local, trouble);
    set_failure_router(context);
    begin_detecting(context, std::move(detector), rank_infos, options);
    if (shm) context.engine->add(std::move(shm));
    if (tcp) context.engine->add(std::move(tcp));
  }
  attendance.complete();
  Patience patience = context.oversubscribed ? shared_core : own_core;
  patience.spins = options.spins.value_or(patience.spins);
  context.engine->set_patience(context.oversubscribed ? first_wait : patience, patience);
}

}  // namespace tutti::detail
