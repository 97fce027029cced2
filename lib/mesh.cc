#include "lib/mesh.h"

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
#include "lib/base/refusal.h"
#include "lib/card.h"
#include "lib/job_key.h"
#include "rendezvous/exchange.h"
#include "transport/shm/address.h"
#include "transport/shm/shm_transport.h"
#include "transport/tcp/tcp_transport.h"

namespace tutti::detail {
namespace {

using transport::ShmTransport;
using transport::TcpTransport;

/// Where every rank has a core of its own, a short spin catches an answer that is under way; where they share cores
/// it only delays the peer that is waited for. Yields follow in both cases: they cost little on an idle core, and on
/// one that another process wants they save a whole time slice. Sleep comes last, since a wake-up costs 5 to 20 us.
constexpr Patience own_core{.spins = 200, .yields = 2000};
constexpr Patience shared_core{.spins = 0, .yields = 200};
/// The first of all waits lasts until the others have set up what they need, for which they need the cores.
constexpr Patience first_wait{.spins = 0, .yields = 4};

/// Ranks by host, in rank order, where a host is what same_host() says it is.
std::vector<std::vector<int>> hosts_of(const std::vector<Card>& cards) {
  std::vector<std::vector<int>> hosts;
  for (int rank = 0; rank < static_cast<int>(cards.size()); ++rank) {
    const Card& card = cards[static_cast<std::size_t>(rank)];
    const auto host = std::find_if(hosts.begin(), hosts.end(), [&](const std::vector<int>& ranks) {
      const Card& first = cards[static_cast<std::size_t>(ranks.front())];
      return transport::same_host(first.shm, card.shm) && first.domain == card.domain;
    });
    if (host == hosts.end()) {
      hosts.push_back({rank});
    } else {
      host->push_back(rank);
    }
  }
  return hosts;
}

/// How many cores these ranks of one host have together.
int cores_of(const std::vector<int>& ranks, const std::vector<Card>& cards) {
  std::vector<std::string> allowed;
  int quota = 0;
  for (const int rank : ranks) {
    const Card& card = cards[static_cast<std::size_t>(rank)];
    allowed.push_back(card.allowed);
    quota = std::max(quota, card.quota);
  }
  return cores_together(allowed, quota);
}

const std::vector<int>& host_of(const std::vector<std::vector<int>>& hosts, int rank) {
  return *std::find_if(hosts.begin(), hosts.end(), [rank](const std::vector<int>& ranks) {
    return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
  });
}

/// Tries shared memory among the ranks of this host for real and tells the others. Empty: it works; else the first
/// rank's reason why not. Every rank calls. `trouble`: why this one has no `shm`, if it should.
std::string agree_on_shm(ShmTransport* shm, const std::string& trouble, const std::vector<int>& local,
                         const std::vector<Card>& cards, const JoinOptions& options) {
  std::vector<std::string> addresses;
  for (const int rank : local) addresses.push_back(cards[static_cast<std::size_t>(rank)].shm);
  const auto offered = std::ranges::count_if(addresses, transport::offers_shm);
  std::string outcome = trouble;
  if (local.size() == 1) {
    outcome.clear();  // nobody misses it
  } else if (std::cmp_equal(offered, local.size())) {
    const auto position = std::find(local.begin(), local.end(), options.rank) - local.begin();
    outcome = shm->probe(addresses, static_cast<int>(position), options.deadline).value_or("");
  } else if (!shm && outcome.empty() && offered > 0) {
    outcome = "it was told to do without";
  }
  const auto outcomes =
      rendezvous::exchange(*options.store, "shm", options.rank, options.size, "=" + outcome, options.deadline);
  for (const int rank : local)
    if (outcomes[static_cast<std::size_t>(rank)].size() > 1)
      return fmt::format("rank {}: {}", rank, outcomes[static_cast<std::size_t>(rank)].substr(1));
  return "";
}

std::vector<Card> exchange_cards(const Card& mine, const JoinOptions& options) {
  const auto texts =
      rendezvous::exchange(*options.store, "card", options.rank, options.size, mine.encode(), options.deadline);
  std::vector<Card> cards;
  for (int rank = 0; rank < options.size; ++rank)
    cards.push_back(Card::decode(texts[static_cast<std::size_t>(rank)], rank));
  return cards;
}

/// Checksums are of messages, and a flat call has none.
std::size_t flat_limit_of(const Context& context, const JoinOptions& options) {
  return context.checksum ? 0 : options.flat_limit;
}

void fill_peers(Context& context, const std::vector<Card>& cards) {
  context.flat_limit = std::ranges::min(cards, {}, &Card::flat_limit).flat_limit;
  context.peers.resize(cards.size());
  for (std::size_t i = 0; i < cards.size(); ++i) {
    context.peers[i].host = cards[i].host;
    context.peers[i].process = cards[i].process;
    context.peers[i].traces = !cards[i].traces.empty();
  }
}

std::vector<std::string> names_of(const Context& context) {
  std::vector<std::string> names;
  for (std::size_t rank = 0; rank < context.peers.size(); ++rank)
    names.push_back(fmt::format("rank {} (host {}, {})", rank, context.peers[rank].host, context.peers[rank].process));
  return names;
}

void set_lookout(Context& context) {
  context.lookout = std::make_unique<Lookout>(context.rank, names_of(context), context.engine, context.log);
}

/// Everybody has published an address, or nobody watches.
void begin_watch(Context& context, std::unique_ptr<Watch> watch, const std::vector<Card>& cards,
                 const JoinOptions& options) {
  std::vector<Watched> ranks;
  const std::vector<std::string> names = names_of(context);
  for (std::size_t rank = 0; rank < cards.size(); ++rank) {
    if (cards[rank].watch.empty()) return;
    ranks.push_back({cards[rank].watch, names[rank]});
  }
  watch->begin(std::move(ranks), {.beat = options.lost_after / 10, .lost = options.lost_after}, *context.lookout,
               options.deadline);
  context.lookout->set_watch(std::move(watch));
}

/// All ranks in one process: one transport, nothing to probe.
void join_threads(Context& context, const JoinOptions& options) {
  auto transport = std::make_unique<transport::InprocTransport>(options.inproc, options.rank, context.engine->reactor(),
                                                                context.stores);
  Card mine{host_name(), fmt::format("thread {}", options.rank), quota_cores(), "", transport->address(), ""};
  mine.flat_limit = flat_limit_of(context, options);
  const std::vector<Card> cards = exchange_cards(mine, options);
  std::vector<std::string> addresses;
  for (const Card& card : cards) addresses.push_back(card.tcp);
  fill_peers(context, cards);
  for (Peer& peer : context.peers) {
    peer.same_host = true;
    peer.transport = transport.get();
  }
  context.local_rank = options.rank;
  context.local_size = options.size;
  std::vector<int> everyone(cards.size());
  std::iota(everyone.begin(), everyone.end(), 0);
  context.oversubscribed = options.size > cores_of(everyone, cards);
  transport->set_peers(addresses);
  context.engine->add(std::move(transport));
  set_lookout(context);
}

/// Decides per peer: shared memory within this host if it works, else TCP.
void choose_transports(Context& context, const std::vector<Card>& cards, const std::vector<int>& local,
                       ShmTransport* shm, TcpTransport* tcp, const std::string& shm_trouble,
                       const std::string& tcp_trouble) {
  std::vector<std::string> shm_addresses(cards.size());
  std::vector<std::string> tcp_addresses(cards.size());
  for (std::size_t i = 0; i < cards.size(); ++i) {
    const int rank = static_cast<int>(i);
    Peer& peer = context.peers[i];
    peer.same_host = std::find(local.begin(), local.end(), rank) != local.end();
    if (rank == context.rank) continue;
    if (shm && peer.same_host && shm_trouble.empty()) {
      shm_addresses[i] = cards[i].shm;
      peer.transport = shm;
    } else if (tcp && !cards[i].tcp.empty()) {
      tcp_addresses[i] = cards[i].tcp;
      peer.transport = tcp;
    } else {
      throw Error{ErrorCode::rendezvous,
                  fmt::format("rank {} (host {}) cannot be reached from rank {} (host {}): {}{}", rank, peer.host,
                              context.rank, cards[static_cast<std::size_t>(context.rank)].host,
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

void check_secrets(const std::vector<Card>& cards, int rank) {
  std::vector<std::string> fingerprints;
  for (const Card& card : cards) fingerprints.push_back(card.fingerprint);
  check_fingerprints(fingerprints, rank);
}

/// Whoever encrypts would wait for a peer that does not, and the other way round, until the deadline.
void check_encryption(const std::vector<Card>& cards, int rank) {
  const bool mine = !cards[static_cast<std::size_t>(rank)].encrypted.empty();
  for (std::size_t other = 0; other < cards.size(); ++other)
    if (cards[other].encrypted.empty() == mine)
      throw Error{ErrorCode::rendezvous,
                  fmt::format("rank {} encrypts its connections and rank {} does not: set TUTTI_TLS=1 for all ranks "
                              "(tutti run --tls does), or for none",
                              mine ? rank : static_cast<int>(other), mine ? static_cast<int>(other) : rank),
                  static_cast<int>(other)};
}

/// The transport, if it is wanted and the system grants what it needs; else null, and `trouble` says why.
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

/// Who shares this rank's host, and whether ranks outnumber cores anywhere.
std::vector<int> settle(Context& context, const std::vector<Card>& cards, ShmTransport* shm,
                        const JoinOptions& options) {
  const auto hosts = hosts_of(cards);
  warn_of_open_key(options, hosts.size(), context.log);
  const auto& local = host_of(hosts, context.rank);
  context.local_size = static_cast<int>(local.size());
  context.local_rank = static_cast<int>(std::find(local.begin(), local.end(), context.rank) - local.begin());
  const std::size_t threads = options.tunnels ? 2 : 1;  // of a rank that are busy at the same time
  for (const auto& ranks : hosts) {
    const bool share_cores = std::cmp_greater(threads * ranks.size(), cores_of(ranks, cards));
    context.oversubscribed |= share_cores;
    if (share_cores && shm && &ranks == &local) shm->share_cores();
  }
  return local;
}

/// "0 1 2 3"
std::string list(const std::vector<int>& ranks) { return fmt::format("{}", fmt::join(ranks, " ")); }

/// Who talks over what, for people who wonder.
void tell(const Context& context, const Card& mine, const std::vector<int>& local, const std::string& shm_trouble) {
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
  if (!mine.tcp.empty())
    context.log.info(Subsystem::net,
                     "accepts TCP links at " + mine.tcp + (mine.encrypted.empty() ? "" : ", encrypted"));
  if (!shm_trouble.empty()) context.log.info(Subsystem::shm, "shared memory is not used: " + shm_trouble);
  for (const auto& [name, ranks] : by_transport)
    context.log.info(name == "shm" ? Subsystem::shm : Subsystem::net,
                     fmt::format("talks over {} to ranks {}", name, list(ranks)));
}

}  // namespace

void join_mesh(Context& context, const JoinOptions& options) {
  context.rank = options.rank;
  context.size = options.size;
  context.store = options.store;
  context.engine = std::make_shared<Engine>(own_core);
  context.engine->set_recorder(context.recorder.get());
  if (options.size == 1 && !options.store) {
    fill_peers(context, {{host_name(), fmt::format("pid {}", getpid()), 1, "", "", ""}});
    set_lookout(context);
    return;
  }
  rendezvous::join(*options.store, options.rank, options.size, options.deadline);
  if (options.inproc) {
    join_threads(context, options);
  } else {
    context.key = agree_on_key(options);
    const std::string token = context.key.derive("shared memory").reveal().substr(0, transport::job_token_size);
    auto& reactor = context.engine->reactor();
    const transport::TcpOptions tcp_options{.bind_address = options.bind_address,
                                            .key = context.key,
                                            .tunnels = options.tunnels,
                                            .congestion = options.congestion,
                                            .log = context.log};
    std::string no_shm;
    std::string no_tcp;
    auto shm = make<ShmTransport>(options.shm, no_shm, options.rank, token, reactor, context.log, context.stores);
    auto tcp = make<TcpTransport>(options.tcp, no_tcp, options.rank, tcp_options, reactor);
    auto watch = std::make_unique<Watch>(options.rank, options.bind_address, context.key, options.tunnels);
    // The shared-memory address also says which host this is, so it is published even where it is not used.
    const Card mine{host_name(),
                    fmt::format("pid {}", getpid()),
                    quota_cores(),
                    shm ? shm->address() : transport::host_identity(),
                    tcp ? tcp->address() : "",
                    options.domain,
                    watch->address(),
                    fingerprint(context.key),
                    allowed_cores(),
                    options.tunnels ? "tls" : "",
                    flat_limit_of(context, options),
                    context.recorder ? "trace" : ""};
    const std::vector<Card> cards = exchange_cards(mine, options);
    fill_peers(context, cards);
    check_secrets(cards, options.rank);
    check_encryption(cards, options.rank);
    const std::vector<int> local = settle(context, cards, shm.get(), options);
    const std::string trouble = agree_on_shm(shm.get(), no_shm, local, cards, options);
    if (!trouble.empty() && context.local_rank == 0)
      context.log.warn(fmt::format("shared memory is not used on host {}: {}", mine.host, trouble));
    choose_transports(context, cards, local, shm.get(), tcp.get(), trouble, no_tcp);
    tell(context, mine, local, trouble);
    set_lookout(context);
    begin_watch(context, std::move(watch), cards, options);
    if (shm) context.engine->add(std::move(shm));
    if (tcp) context.engine->add(std::move(tcp));
  }
  Patience patience = context.oversubscribed ? shared_core : own_core;
  patience.spins = options.spins.value_or(patience.spins);
  context.engine->set_patience(context.oversubscribed ? first_wait : patience, patience);
}

}  // namespace tutti::detail
