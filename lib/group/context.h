#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "algorithms/plan_text.h"
#include "algorithms/select.h"
#include "lib/base/topology.h"
#include "lib/compute/kernels.h"
#include "lib/engine/engine.h"
#include "lib/engine/short_wait.h"
#include "lib/failure/inject.h"
#include "lib/group/failure_router.h"
#include "lib/observe/black_box.h"
#include "lib/observe/log.h"
#include "lib/observe/trace/recorder.h"
#include "lib/security/secret.h"
#include "transport/memory/copy_policy.h"
#include "transport/transport.h"
#include "tutti/options.h"

namespace tutti::detail {

/// How this rank sees another one. Filled by join_ranks().
struct Peer {
  std::string host;
  std::string process;  ///< "pid 1234"
  bool same_host = false;
  bool traces = false;                        ///< it records a trace
  transport::Transport* transport = nullptr;  ///< null for this rank
  Place place = {};                           ///< of its cores; of interest on this rank's host
  int first_on_host = 0;                      ///< the lowest rank of the job on its host
};

/// What all communicators of a rank share: the engine, the way to each peer, the settings.
struct Context {
  Context() = default;
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context() {
    if (failure_router) {
      failure_router->stop();
      // Another thread may own the engine, in a wait that has just failed. What the failure router has posted to it
      // must run before the router is destroyed.
      engine->exclusively([] {});
    }
    if (engine) engine->stop();
  }

  /// A short wait for the owner of the engine, which asynchronous work may need meanwhile, to send a message for
  /// example. `hurried`: or whose caller has other work.
  ShortWait short_wait(bool hurried = false) const noexcept {
    return {oversubscribed, hurried || engine->has_asynchronous_work(), engine->mail_flag()};
  }

  Log log;
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  bool threads = false;         ///< ranks are threads of this process; there is no failure detector
  bool oversubscribed = false;  ///< some machine of the job has fewer cores than ranks, or than busy threads
  std::vector<Peer> peers;      ///< by global rank
  std::chrono::milliseconds timeout{300'000};
  bool deterministic = false;
  bool checksum = false;         ///< every payload carries one
  std::size_t board_limit = 0;   ///< bytes that a rank may contribute over a board, equal on all ranks; 0: no boards
  bool inline_messages = false;  ///< short sends and receives may run inline (lib/message/message_fast_path.h)
  std::string default_algorithms;
  std::shared_ptr<const algorithms::TuningTable> tuning;
  std::shared_ptr<const algorithms::GivenPlans> given;  ///< null: none
  const compute::Table* kernels = nullptr;
  transport::CopyPolicy copy_policy;          ///< in shared memory
  std::shared_ptr<Store> store;               ///< that of rank 0 owns the server, from which others may still read
  std::unique_ptr<black_box::Box> black_box;  ///< null: nothing is recorded
  std::shared_ptr<trace::Recorder> recorder;  ///< null: no trace is recorded; the engine owns it, too
  std::unique_ptr<Injector> injector;         ///< null: no faults are injected
  std::atomic<int> groups_made{0};            ///< the world is the first
  std::shared_ptr<Engine> engine;
  /// A secret of this job's ranks, new for every connect(). Connections prove that they know it
  /// (transport/acceptor.h).
  Secret key;
  std::unique_ptr<FailureRouter> failure_router;
};

}  // namespace tutti::detail
