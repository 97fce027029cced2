#include "lib/startup/access.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "transport/shm/address.h"

namespace tutti::detail {
namespace {

using transport::ShmTransport;
using transport::TcpTransport;

/// Tests shared memory among the ranks of this host. Empty: it works; else why not.
std::string probe(ShmTransport* shm, const std::string& trouble, const Introduced& job, const JoinOptions& options) {
  if (job.local.size() == 1) return "";  // no rank would use it
  std::vector<std::string> addresses;
  for (const int rank : job.local) addresses.push_back(job.rank_infos[static_cast<std::size_t>(rank)].shm);
  const auto offered = std::ranges::count_if(addresses, transport::offers_shm);
  if (std::cmp_equal(offered, job.local.size())) {
    const auto position = std::ranges::find(job.local, options.rank) - job.local.begin();
    return shm->probe(addresses, static_cast<int>(position), options.deadline).value_or("");
  }
  return !shm && trouble.empty() && offered > 0 ? "it was told to do without" : trouble;
}

/// No rank needs TCP, if shared memory works.
bool can_do_without_tcp(const Introduced& job) {
  return job.hosts.size() == 1 &&
         std::ranges::all_of(job.rank_infos, [](const auto& one) { return transport::offers_shm(one.shm); });
}

/// The failure detector must be there before the others know the address, or their first attempts would be refused.
JobAccess open(const Context& context, const JoinOptions& options, const net::Address& address,
               std::vector<net::Address> others) {
  JobAccess access;
  access.acceptor = std::make_shared<transport::Acceptor>(
      address, transport::Credentials{context.key, options.rank, options.tls_proxies},
      transport::AcceptorOptions{
          .other_addresses = std::move(others), .congestion = options.congestion, .lost_after = options.lost_after},
      context.log);
  access.detector = std::make_unique<FailureDetector>(options.rank, access.acceptor, context.key, options.tls_proxies);
  return access;
}

JobAccess open_over_tcp(const Context& context, const JoinOptions& options) {
  std::vector<net::Address> others;
  for (const std::string& other : options.other_addresses) others.push_back(tcp_address(other));
  JobAccess access = open(context, options, tcp_address(options.bind_address), others);
  if (!options.tcp) return access;
  std::vector<std::string> own_addresses;
  if (!others.empty()) own_addresses.push_back(options.bind_address);
  std::ranges::copy(options.other_addresses, std::back_inserter(own_addresses));
  const transport::TcpOptions tcp_options{.acceptor = access.acceptor,
                                          .key = context.key,
                                          .tls_proxies = options.tls_proxies,
                                          .congestion = options.congestion,
                                          .connections = options.connections,
                                          .own_addresses = own_addresses,
                                          .log = context.log,
                                          .lost_after = options.lost_after};
  access.tcp = std::make_unique<TcpTransport>(options.rank, tcp_options, context.engine->reactor());
  return access;
}

/// Tells the others by `exchange`, and notes what they tell.
template <class Exchange>
void publish(JobAccess& access, const std::string& shm_trouble, const Exchange& exchange) {
  const RankAccess mine{
      .shm_trouble = shm_trouble, .acceptor = access.acceptor->address(), .tcp = access.tcp != nullptr};
  access.of_ranks.clear();
  for (const std::string& text : exchange(mine.encode()))
    access.of_ranks.push_back(RankAccess::decode(text, static_cast<int>(access.of_ranks.size())));
}

/// The first rank's reason to do without shared memory; empty: there is none.
std::string first_trouble(const std::vector<RankAccess>& accesses, const std::vector<int>& ranks) {
  for (const int rank : ranks)
    if (const std::string& trouble = accesses[static_cast<std::size_t>(rank)].shm_trouble; !trouble.empty())
      return fmt::format("rank {}: {}", rank, trouble);
  return "";
}

/// Connection i goes over the i-th address of both ranks, so all should name the same networks. One rank tells it.
void warn_of_unequal_addresses(const Context& context, const JoinOptions& options, const JobAccess& access) {
  if (options.connections == 1 || options.rank != 0) return;
  const std::vector<RankAccess>& of_ranks = access.of_ranks;
  const auto count = [](const RankAccess& one) { return 1 + std::ranges::count(one.acceptor, ','); };
  const auto other = std::ranges::find_if(
      of_ranks, [&](const RankAccess& one) { return one.tcp && count(one) != count(of_ranks.front()); });
  if (!of_ranks.front().tcp || other == of_ranks.end()) return;
  const auto rank = static_cast<std::size_t>(other - of_ranks.begin());
  context.log.warn(fmt::format(
      "rank 0 accepts connections at {} and rank {} (host {}) at {}: a link uses no more addresses than both of its "
      "ranks have. Let TUTTI_SOCKET_IFNAME name the same networks in the same order for all ranks",
      of_ranks.front().acceptor, rank, context.peers[rank].host, other->acceptor));
}

}  // namespace

net::Address tcp_address(const std::string& host) {
  if (const auto address = net::parse_address(host, 0)) return *address;
  throw Error{ErrorCode::invalid_argument, fmt::format("cannot listen on \"{}\": that is not a numeric address", host)};
}

JobAccess agree_on_access(const Context& context, const JoinOptions& options, ShmTransport* shm,
                          const std::string& shm_trouble, const Introduced& job, rendezvous::Attendance& attendance) {
  const std::string trouble = probe(shm, shm_trouble, job, options);
  const bool without_tcp = can_do_without_tcp(job);
  JobAccess access = without_tcp && trouble.empty() ? open(context, options, net::any_unix_address(), {})
                                                    : open_over_tcp(context, options);
  publish(access, trouble, [&](const std::string& mine) { return attendance.exchange_accesses(mine); });
  const std::string reason = first_trouble(access.of_ranks, job.local);
  if (without_tcp && !reason.empty()) {
    if (trouble.empty()) access = open_over_tcp(context, options);
    publish(access, trouble, [&](const std::string& mine) { return attendance.exchange_fallbacks(mine); });
  }
  access.shm_trouble = reason;
  warn_of_unequal_addresses(context, options, access);
  return access;
}

}  // namespace tutti::detail
