#include "lib/startup/join.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <system_error>
#include <utility>
#include <vector>

#include "lib/base/host.h"
#include "lib/base/quota.h"
#include "lib/base/system_error_text.h"
#include "lib/startup/access.h"
#include "lib/startup/job_key.h"
#include "lib/startup/rank_info.h"
#include "rendezvous/attendance.h"
#include "transport/shm/address.h"
#include "transport/shm/shm_transport.h"

namespace tutti::detail {
namespace {

using transport::ShmTransport;

/// If every rank has a core of its own, a short spin catches an answer that is about to arrive; if ranks share cores,
/// it only delays the awaited peer. Yields follow in both cases: they cost little on an idle core, and on one that
/// another process wants they save a whole time slice. Sleep comes last, since a wake-up costs 5 to 20 us.
constexpr Patience own_core{.spins = 200, .yields = 2000};
constexpr Patience shared_core{.spins = 0, .yields = 200};
/// The first wait lasts until the others have completed their set-up, for which they need the cores.
constexpr Patience first_wait{.spins = 0, .yields = 4};

Place own_place(const JoinOptions& options, const std::string& allowed) {
  return options.topology ? options.topology->place_of(options.rank, allowed) : place_of(allowed);
}

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

std::vector<std::string> cores_allowed(const std::vector<int>& ranks, const std::vector<RankInfo>& rank_infos) {
  std::vector<std::string> allowed;
  for (const int rank : ranks) allowed.push_back(rank_infos[static_cast<std::size_t>(rank)].allowed);
  return allowed;
}

/// The number of cores that these ranks of one host have together.
int cores_of(const std::vector<int>& ranks, const std::vector<RankInfo>& rank_infos) {
  int quota = 0;
  for (const int rank : ranks) quota = std::max(quota, rank_infos[static_cast<std::size_t>(rank)].quota);
  return cores_together(cores_allowed(ranks, rank_infos), quota);
}

/// The ranks under each running kernel that is known. Hosts that are containers of one machine are in one entry.
std::map<std::string, std::vector<int>> machines_of(const std::vector<RankInfo>& rank_infos) {
  std::map<std::string, std::vector<int>> machines;
  for (int rank = 0; std::cmp_less(rank, rank_infos.size()); ++rank)
    if (std::string kernel = transport::kernel_of(rank_infos[static_cast<std::size_t>(rank)].shm); !kernel.empty())
      machines[std::move(kernel)].push_back(rank);
  return machines;
}

const std::vector<int>& host_of(const std::vector<std::vector<int>>& hosts, int rank) {
  return *std::find_if(hosts.begin(), hosts.end(), [rank](const std::vector<int>& ranks) {
    return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
  });
}

std::vector<RankInfo> exchange_rank_infos(const RankInfo& mine, rendezvous::Attendance& attendance) {
  std::vector<RankInfo> rank_infos;
  for (const std::string& text : attendance.exchange_rank_infos(mine.encode()))
    rank_infos.push_back(RankInfo::decode(text, static_cast<int>(rank_infos.size())));
  return rank_infos;
}

/// A number that the ranks of this world have in common, and no other world.
std::uint64_t number_of(const Secret& key) {
  const Secret derived = key.derive("black box");
  std::uint64_t number = 0;
  std::memcpy(&number, derived.bytes().data(), sizeof number);
  return number;
}

void fill_peers(Context& context, const std::vector<RankInfo>& rank_infos) {
  context.board_limit = std::ranges::min(rank_infos, {}, &RankInfo::board_limit).board_limit;
  context.peers.resize(rank_infos.size());
  for (std::size_t i = 0; i < rank_infos.size(); ++i) {
    context.peers[i].host = rank_infos[i].host;
    context.peers[i].process = rank_infos[i].process;
    context.peers[i].traces = rank_infos[i].trace != 0;
    context.peers[i].place = {rank_infos[i].cache, rank_infos[i].node};
  }
  // All agree on the number of the first rank that keeps a trace.
  const auto first = std::ranges::find_if(rank_infos, [](const RankInfo& rank_info) { return rank_info.trace != 0; });
  if (context.recorder) context.recorder->set_world(first->trace);
}

/// As in RankInfo.
std::uint64_t trace_number(const Context& context) { return context.recorder ? context.recorder->number() : 0; }

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

void begin_detecting(Context& context, std::unique_ptr<FailureDetector> detector,
                     const std::vector<RankAccess>& accesses, const JoinOptions& options) {
  std::vector<Watched> ranks;
  const std::vector<std::string> names = names_of(context);
  for (std::size_t rank = 0; rank < accesses.size(); ++rank) {
    ranks.push_back({accesses[rank].first_address(), names[rank]});
  }
  FailureRouter& router = *context.failure_router;
  router.set_detector(std::move(detector));
  router.detector().begin(std::move(ranks), {.beat = options.lost_after / 10, .lost = options.lost_after}, router,
                          options.deadline);
}

/// All ranks in one process: one transport, nothing to probe.
void join_threads(Context& context, const JoinOptions& options, rendezvous::Attendance& attendance) {
  auto transport = std::make_unique<transport::InprocTransport>(options.inproc, options.rank, context.engine->reactor(),
                                                                context.copy_policy);
  const std::string allowed = allowed_cores();
  const Place place = own_place(options, allowed);
  const RankInfo mine{.host = host_name(),
                      .process = fmt::format("thread {}", options.rank),
                      .quota = quota_cores(),
                      .allowed = allowed,
                      .cache = place.cache,
                      .node = place.node,
                      .shm = transport->address(),
                      .board_limit = options.board_limit,
                      .trace = trace_number(context)};
  const std::vector<RankInfo> rank_infos = exchange_rank_infos(mine, attendance);
  std::vector<std::string> addresses;
  for (const RankInfo& rank_info : rank_infos) addresses.push_back(rank_info.shm);
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
RankInfo rank_info_of(const Context& context, const JoinOptions& options, const ShmTransport* shm) {
  const std::string allowed = allowed_cores();
  const Place place = own_place(options, allowed);
  return {.host = host_name(),
          .process = fmt::format("pid {}", getpid()),
          .quota = quota_cores(),
          .allowed = allowed,
          .cache = place.cache,
          .node = place.node,
          .shm = shm ? shm->address() : transport::host_identity(),
          .domain = options.domain,
          .fingerprint = fingerprint(context.key),
          .encrypted = options.tls_proxies != nullptr,
          .board_limit = options.board_limit,
          .trace = trace_number(context),
          .families = options.families};
}

std::vector<bool> under_same_kernel(const std::vector<RankInfo>& rank_infos, int rank) {
  std::vector<bool> ranks;
  for (const RankInfo& rank_info : rank_infos)
    ranks.push_back(transport::same_kernel(rank_info.shm, rank_infos[static_cast<std::size_t>(rank)].shm));
  return ranks;
}

/// Decides per peer: shared memory within this host if it works, else TCP.
void choose_transports(Context& context, const Introduced& job, ShmTransport* shm, const JobAccess& access) {
  std::vector<std::string> shm_addresses(job.rank_infos.size());
  std::vector<std::string> tcp_addresses(job.rank_infos.size());
  for (const std::vector<int>& host : job.hosts)
    for (const int rank : host) context.peers[static_cast<std::size_t>(rank)].first_on_host = host.front();
  for (std::size_t i = 0; i < job.rank_infos.size(); ++i) {
    const int rank = static_cast<int>(i);
    Peer& peer = context.peers[i];
    peer.same_host = std::ranges::find(job.local, rank) != job.local.end();
    if (rank == context.rank) continue;
    if (shm && peer.same_host && access.shm_trouble.empty()) {
      shm_addresses[i] = job.rank_infos[i].shm;
      peer.transport = shm;
    } else if (access.tcp && access.of_ranks[i].tcp) {
      tcp_addresses[i] = access.of_ranks[i].acceptor;
      peer.transport = access.tcp.get();
    } else {
      throw Error{
          ErrorCode::rendezvous,
          fmt::format("rank {} (host {}) cannot be reached from rank {} (host {}): {}. Allow tcp in "
                      "the option `transport`, or in TUTTI_TRANSPORT",
                      rank, peer.host, context.rank, job.rank_infos[static_cast<std::size_t>(context.rank)].host,
                      !peer.same_host              ? "it is on another host"
                      : access.shm_trouble.empty() ? "one of them has no shared memory"
                                                   : "shared memory failed: " + access.shm_trouble),
          rank};
    }
  }
  if (shm) shm->set_peers(shm_addresses);
  if (access.tcp) access.tcp->set_peers(tcp_addresses);
  if (access.tcp) access.tcp->set_within_host(under_same_kernel(job.rank_infos, context.rank));
  if (job.shares_cores && shm) shm->share_cores();
  if (job.shares_cores && access.tcp) access.tcp->share_cores();
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
std::unique_ptr<ShmTransport> make_shm(const Context& context, const JoinOptions& options, std::string& trouble) {
  if (!options.shm) return nullptr;
  const std::string token = context.key.derive("shared memory").reveal().substr(0, transport::job_token_size);
  try {
    return std::make_unique<ShmTransport>(options.rank, token, context.engine->reactor(), context.log,
                                          context.copy_policy);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::system) throw;
    trouble = error.what();
  } catch (const std::system_error& error) {  // Asio's, and threads'
    trouble = refusal(error.code().value());
  }
  return nullptr;
}

/// Sorts the ranks by host, and finds out whether ranks outnumber cores anywhere.
Introduced settle(Context& context, std::vector<RankInfo> rank_infos, const JoinOptions& options) {
  Introduced job{.rank_infos = std::move(rank_infos), .hosts = {}, .local = {}};
  job.hosts = hosts_of(job.rank_infos);
  warn_of_open_key(options, job.hosts.size(), context.log);
  job.local = host_of(job.hosts, context.rank);
  context.local_size = static_cast<int>(job.local.size());
  context.local_rank =
      static_cast<int>(std::find(job.local.begin(), job.local.end(), context.rank) - job.local.begin());
  const std::size_t threads = options.tls_proxies ? 2 : 1;  // busy threads of a rank
  const auto machines = machines_of(job.rank_infos);
  for (const auto& ranks : job.hosts) {
    bool crowded = std::cmp_greater(threads * ranks.size(), cores_of(ranks, job.rank_infos));
    // Other containers of the machine have quotas of their own, or share one with this host, which is not known.
    const auto machine =
        machines.find(transport::kernel_of(job.rank_infos[static_cast<std::size_t>(ranks.front())].shm));
    if (machine != machines.end() && machine->second.size() > ranks.size())
      crowded |= std::cmp_greater(threads * machine->second.size(),
                                  cores_together(cores_allowed(machine->second, job.rank_infos), 0));
    context.oversubscribed |= crowded;
    job.shares_cores |= crowded && ranks == job.local;
  }
  return job;
}

/// "0 1 2 3"
std::string list(const std::vector<int>& ranks) { return fmt::format("{}", fmt::join(ranks, " ")); }

/// Logs the transport to each rank.
void tell(const Context& context, const RankInfo& mine, const std::vector<int>& local, const JobAccess& access) {
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
                               context.oversubscribed ? "; ranks outnumber cores on some machine" : ""));
  const auto shown = [](const std::string& name) { return name.empty() ? "several, or unknown" : name; };
  context.log.info(Subsystem::init, fmt::format("its cores share last-level cache {}, on NUMA node {}",
                                                shown(mine.cache), shown(mine.node)));
  context.log.info(Subsystem::net, fmt::format("accepts connections at {}{}", access.acceptor->address(),
                                               mine.encrypted ? ", encrypted" : ""));
  if (!access.shm_trouble.empty()) context.log.info(Subsystem::shm, "shared memory is not used: " + access.shm_trouble);
  for (const auto& [name, ranks] : by_transport)
    context.log.info(name == "shm" ? Subsystem::shm : Subsystem::net,
                     fmt::format("talks over {} to ranks {}", name, list(ranks)));
}

/// Each rank a process.
void join_processes(Context& context, const JoinOptions& options, rendezvous::Attendance& attendance) {
  tcp_address(options.bind_address);  // a wrong one is told before anybody waits, even if none should be needed
  context.key = agree_on_key(options, attendance.store());
  if (context.black_box) context.black_box->set_world(number_of(context.key));
  std::string no_shm;
  auto shm = make_shm(context, options, no_shm);
  const RankInfo mine = rank_info_of(context, options, shm.get());
  std::vector<RankInfo> rank_infos = exchange_rank_infos(mine, attendance);
  fill_peers(context, rank_infos);
  check_secrets(rank_infos, options.rank);
  check_encryption(rank_infos, options.rank);
  const Introduced job = settle(context, std::move(rank_infos), options);
  JobAccess access = agree_on_access(context, options, shm.get(), no_shm, job, attendance);
  check_families(job.rank_infos, access.of_ranks);
  if (!access.shm_trouble.empty() && context.local_rank == 0)
    context.log.warn(fmt::format("shared memory is not used on host {}: {}", mine.host, access.shm_trouble));
  choose_transports(context, job, shm.get(), access);
  tell(context, mine, job.local, access);
  set_failure_router(context);
  begin_detecting(context, std::move(access.detector), access.of_ranks, options);
  if (shm) context.engine->add(std::move(shm));
  if (access.tcp) context.engine->add(std::move(access.tcp));
}

}  // namespace

void join_ranks(Context& context, const JoinOptions& options) {
  context.rank = options.rank;
  context.size = options.size;
  context.store = options.store;
  context.engine = std::make_shared<Engine>(own_core);
  context.engine->set_recorder(context.recorder);
  context.inline_messages = options.inline_messages;
  if (options.size == 1 && !options.store) {
    fill_peers(context,
               {{.host = host_name(), .process = fmt::format("pid {}", getpid()), .trace = trace_number(context)}});
    set_failure_router(context);
    return;
  }
  rendezvous::Attendance attendance{options.store, options.rank, options.size, options.deadline};
  if (options.inproc) {
    join_threads(context, options, attendance);
  } else {
    join_processes(context, options, attendance);
  }
  attendance.complete();
  Patience patience = context.oversubscribed ? shared_core : own_core;
  patience.spins = options.spins.value_or(patience.spins);
  context.engine->set_patience(context.oversubscribed ? first_wait : patience, patience);
}

void decline(const JoinOptions& options, const Error& reason) {
  rendezvous::Attendance attendance{options.store, options.rank, options.size, options.deadline};
  if (options.rank == 0) agree_on_key(options, attendance.store());  // the others wait for it first
  attendance.decline(reason);
}

}  // namespace tutti::detail
