#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "cli/run/environment.h"
#include "cli/run/multi_node.h"
#include "cli/run/run.h"

namespace tutti::cli {

/// Where the store of a job is, and the one that PyTorch's clients can join; port 0: the kernel chooses it.
struct StorePlaces {
  rendezvous::Endpoint ours;
  rendezvous::Endpoint plain;
  bool two_stores = false;  ///< PyTorch's clients cannot prove a secret, so they have a store of their own, on loopback
};
StorePlaces store_places(const Job& job);

/// The store in which the ranks of a job meet, and the agreement on how the job ends. The runner of node 0 serves the
/// store, and those of other nodes join it.
class JobStore {
 public:
  /// On node 0, returns once its name is known. Elsewhere, once the runner of node 0 answers, and not the one of an
  /// earlier job that is about to go; throws Error if it does not in time. Call it before the constructor and while
  /// signals still have their usual actions: it can take minutes.
  static void await(const Job& job);
  /// Throws Error if the port is taken (naming it), if the runner of node 0 does not answer, or if the nodes disagree.
  explicit JobStore(const Job& job);
  ~JobStore();

  const RendezvousUrl& rdzv() const;

  // See Agreement. On one node, this node's result is the outcome, and each attempt has a store of its own.
  void all_well_here();
  void lost(const JobOutcome& outcome);
  void failed(const JobOutcome& outcome);
  int outcome_fd() const;
  std::optional<JobOutcome> outcome();
  void begin_attempt();
  void leave();

 private:
  /// Starts new servers and sets their addresses. With a secret there is one for our ranks and, on loopback, a second
  /// one that PyTorch's clients can join, which shares nothing with the first.
  void serve();
  void meet_at(const rendezvous::Endpoint& ours, const rendezvous::Endpoint& plain);

  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace tutti::cli
