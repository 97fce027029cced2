#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/topology.h"
#include "lib/group/context.h"
#include "lib/security/tls_proxy.h"
#include "transport/memory/inproc.h"
#include "tutti/store.h"

namespace tutti::detail {

/// The settings with which one rank joins the others.
struct JoinOptions {
  int rank = 0;
  int size = 1;
  std::shared_ptr<Store> store = {};             ///< null only for one rank
  bool foreign_store = false;                    ///< a launcher's own, which anybody may read who reaches it
  Secret secret = {};                            ///< of the job; empty: it has none
  std::shared_ptr<TlsProxies> tls_proxies = {};  ///< encrypt what goes over TCP; null: nothing is encrypted
  bool shm = true;
  bool tcp = true;
  std::shared_ptr<transport::InprocHub> inproc = {};  ///< given: ranks are threads, nothing else is used
  std::string bind_address = "127.0.0.1";             ///< numeric; where TCP connections are accepted
  std::vector<std::string> other_addresses = {};      ///< numeric; where they are accepted, too, in this order
  std::size_t connections = 1;                        ///< of a link over TCP
  std::string families = {};                          ///< see RankInfo
  std::string congestion = {};                        ///< TCP congestion control; empty: the transport's choice
  std::string domain = {};  ///< ranks of different domains do not share memory: lets tests play several hosts on one
  std::optional<Topology> topology = {};         ///< in place of what the system says
  std::size_t board_limit = ~std::size_t{0};     ///< see Context; the smallest of all ranks' counts
  bool inline_messages = true;                   ///< see Context
  std::optional<int> spins = {};                 ///< tries before a wait yields the core; empty: by ranks per core
  std::chrono::milliseconds lost_after{10'000};  ///< of silence
  Clock::time_point deadline = {};
};

/// Meets the other ranks through the store and makes the transports that reach them: shared memory within a host,
/// proved by a real transfer first, and TCP between hosts. Fills `context` (rank, size, peers, engine ...) and creates
/// its engine. There are three rounds at the store, each with O(ranks) messages: a token, what the ranks are, and how
/// they can be reached; and a fourth if they are all on one host and shared memory has failed (lib/startup/access.h).
void join_ranks(Context& context, const JoinOptions& options);

/// In place of join_ranks(): the other ranks learn that this one cannot come, for this reason, and fail at once.
void decline(const JoinOptions& options, const Error& reason);

}  // namespace tutti::detail
