#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/base/net/address.h"
#include "lib/failure/detector.h"
#include "lib/group/context.h"
#include "lib/startup/join.h"
#include "lib/startup/rank_info.h"
#include "rendezvous/attendance.h"
#include "transport/acceptor.h"
#include "transport/shm/shm_transport.h"
#include "transport/tcp/tcp_transport.h"

namespace tutti::detail {

/// The ranks of a job, after they have introduced themselves.
struct Introduced {
  std::vector<RankInfo> rank_infos;
  std::vector<std::vector<int>> hosts;  ///< ranks by host, in rank order
  std::vector<int> local;               ///< those on this rank's host
  bool shares_cores = false;            ///< the machine of this host has more ranks, or busy threads, than cores
};

/// How other ranks reach this one, and this one them.
struct JobAccess {
  std::shared_ptr<transport::Acceptor> acceptor = {};
  std::unique_ptr<FailureDetector> detector = {};
  std::unique_ptr<transport::TcpTransport> tcp = {};  ///< null: this rank has no links over TCP
  std::vector<RankAccess> of_ranks = {};              ///< what they have published
  std::string shm_trouble = {};                       ///< why this host does without shared memory; empty: it does not
};

/// Where a rank with this numeric address would listen for TCP connections. Throws Error{invalid_argument}.
net::Address tcp_address(const std::string& host);

/// Tests shared memory among the ranks of this host with a real transfer, opens this rank's acceptor, and tells the
/// other ranks. Every rank calls. `shm_trouble`: why this rank has no `shm` although it is wanted.
///
/// If all ranks are on one host and share memory, only their failure detectors connect, and acceptors listen on Unix
/// sockets. Otherwise they listen on TCP ports. Ranks that all share a host know the outcome only after the first
/// exchange; if a test has failed, they open other acceptors and tell each other once more.
JobAccess agree_on_access(const Context& context, const JoinOptions& options, transport::ShmTransport* shm,
                          const std::string& shm_trouble, const Introduced& job, rendezvous::Attendance& attendance);

}  // namespace tutti::detail
