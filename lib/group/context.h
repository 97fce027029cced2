#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "algorithms/plan_text.h"
#include "algorithms/select.h"
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
  bool traces = false;                        ///< it keeps a trace
  transport::Transport* transport = nullptr;  ///< null for this rank itself
};

/// What the communicators of one rank share: the engine, the way to each peer, the settings.
struct Context {
  Context() = default;
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context() {
    if (failure_router) {
      failure_router->stop();
      // Another thread may own the engine, in a wait that has just failed: what the failure detector gave it to do
      // refers to the failure_router, and ends before it.
      engine->exclusively([] {});
    }
    if (engine) engine->stop();
  }

  /// For the owner of the engine. Asynchronous work may need it meanwhile: a message that is being sent, say.
  ShortWait short_wait() const noexcept { return {oversubscribed, engine->has_asynchronous_work()}; }

  Log log;
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  bool threads = false;         ///< ranks are threads of this process: no failure detector tells of failures
  bool oversubscribed = false;  ///< some host of the job has fewer cores than ranks, or their busy threads
  std::vector<Peer> peers;      ///< by global rank
  std::chrono::milliseconds timeout{300'000};
  bool deterministic = false;
  bool checksum = false;        ///< every payload carries one
  std::size_t board_limit = 0;  ///< bytes a rank may contribute over a board, equal on all ranks; 0: there are none
  bool inline_messages =
      false;  ///< short sends and receives may do without the engine (lib/message/message_fast_path.h)
  std::string default_algorithms;
  std::shared_ptr<const algorithms::TuningTable> tuning;
  std::shared_ptr<const algorithms::GivenPlans> given;  ///< null: none
  const compute::Table* kernels = nullptr;
  transport::CopyPolicy copy_policy;          ///< in shared memory
  std::shared_ptr<Store> store;               ///< rank 0's holds the server that others may still be reading from
  std::unique_ptr<black_box::Box> black_box;  ///< null: nothing is noted down
  std::unique_ptr<trace::Recorder> recorder;  ///< null: nobody wants a trace; outlives the engine
  std::unique_ptr<Injector> injector;         ///< null: no faults are played
  std::atomic<int> groups_made{0};            ///< the world is the first
  std::shared_ptr<Engine> engine;
  /// What only this job's ranks know, new for every connect(); connections prove it (transport/tcp/acceptor.h).
  Secret key;
  std::unique_ptr<FailureRouter> failure_router;
};

}  // namespace tutti::detail
