#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "lib/observe/log.h"
#include "rendezvous/access_policy.h"
#include "tutti/options.h"

namespace tutti::rendezvous {

/// Looks up an environment variable; tests give their own.
using Lookup = std::function<std::optional<std::string>(const std::string& name)>;

/// This process's rank, and where it meets the others.
struct Launch {
  int rank = 0;
  int size = 1;
  int local_rank = -1;  ///< -1: the launcher does not say
  int local_size = -1;
  std::string rendezvous = {};  ///< "tcp://host:port", "file:///path", or empty (one rank, or a store was given)
  bool serve = false;           ///< this rank is the TCP server
  bool rank_0_serves = false;   ///< another rank is the server, to which the launcher has given the same variables
  bool awaits_rank_0 = false;   ///< which serves and comes as often: a later store opens when that of rank 0 has
  bool foreign = false;         ///< the store there is a launcher's own, which has none of our secrets
  bool own_folder = false;      ///< the file's folder is this job's: open_store() makes it, the last rank removes it
  std::string prefix = {};      ///< of every key; separates jobs and restarts
  std::string source = {};      ///< where this comes from, for people: "TUTTI_*", "torchrun", "Slurm step" ...
};

/// For what a rank asks where to meet; nothing: it only asks who it is.
enum class MeetFor : std::uint8_t { communicator, store, nothing };

/// The one place that reads the launcher's environment: explicit options, TUTTI_*, torchrun / env://, Open MPI, PMI,
/// Slurm step, Kubernetes indexed job; the first complete set wins. Throws Error{invalid_argument} that names the
/// variables if a set is incomplete or contradicts itself, or if they give a communicator a place to meet but no rank.
///
/// Rank 0 serves at "tcp://host:port", unless TORCHELASTIC_USE_AGENT_STORE says that the launcher does so at
/// MASTER_ADDR and MASTER_PORT. "store://host:port" names a store that is served already; it becomes "tcp://" without
/// `serve`. One rank meets nobody, but it joins such a store if the options name it, and with MeetFor::store it opens
/// any that they or the launcher that gave its number name, since others may look for its keys.
Launch find_launch(const ConnectOptions& options, const Lookup& environment, MeetFor what = MeetFor::communicator);

/// Opens the store that `launch` names; if launch.serve, also starts the server, which lives as long as the store. With
/// a secret in `access_policy`, server and clients prove to each other that they know it, unless the store is foreign.
/// The caller adds the prefix. A process may do this again for the same rendezvous: the n-th store of a rank sees the
/// keys of the other ranks' n-th store, also if the server of the last one has ended meanwhile, or is about to.
std::shared_ptr<Store> open_store(const Launch& launch, Store::Milliseconds timeout,
                                  const AccessPolicy& access_policy = {}, const Log& log = Log{});

}  // namespace tutti::rendezvous
