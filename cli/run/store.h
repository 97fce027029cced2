#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "cli/run/environment.h"
#include "cli/run/multi_node.h"
#include "cli/run/run.h"

namespace tutti::cli {

/// Where the ranks of a job meet, and how it is known how the job ends. The runner of node 0 serves the store, those of
/// other nodes join it.
class JobStore {
 public:
  /// Returns once the runner of node 0 answers; throws Error when it does not in time. Call it before the constructor,
  /// and while signals still do what they usually do: this can take minutes.
  static void await(const Job& job);
  /// Throws Error when the port is taken (naming it), the runner of node 0 does not answer, or the nodes disagree.
  explicit JobStore(const Job& job);
  ~JobStore();

  const RendezvousUrl& meeting() const;

  // See Agreement; on one node this node's word is the verdict, and each attempt has a store of its own.
  void all_well_here();
  void lost(const Verdict& verdict);
  void failed(const Verdict& verdict);
  int verdict_fd() const;
  std::optional<Verdict> verdict();
  void begin_attempt();
  void leave();

 private:
  /// Starts new servers and says where they are. With a secret, one for our ranks, and on loopback a second one that
  /// PyTorch's clients can join, which shares nothing with the first.
  void serve();
  void meet_at(const rendezvous::Endpoint& ours, const rendezvous::Endpoint& plain);

  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace tutti::cli
