// The life of one rank: joins the others, and executes the orders that all ranks receive.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "cli/tune/calls.h"
#include "cli/tune/gpus.h"
#include "cli/tune/workers.h"
#include "tutti/communicator.h"
#include "tutti/error.h"

namespace tutti::cli::tune {
namespace {

class WorkerRank {
 public:
  WorkerRank(WorkerMemory& memory, Communicator comm, const WorkerOptions& options)
      : memory_(memory),
        comm_(std::move(comm)),
        sync_(&memory.shared, comm_.rank(), comm_.size(), 1, options.cores),
        calls_(options.gpus > 0 ? make_device_calls(comm_, options) : make_host_calls(comm_, options)) {}

  /// Executes orders until told to leave.
  void obey(int orders, int answers) {
    for (;;) {
      char byte = 1;
      if (comm_.rank() == 0 && ::read(orders, &byte, 1) != 1)
        throw Error{ErrorCode::aborted, "the directing process has ended"};
      sync_.gather();
      const Order order = memory_.order;
      if (order.kind == Order::Kind::leave) comm_.barrier();
      if (order.kind == Order::Kind::measure) measure(order);
      if (order.kind == Order::Kind::ask_choice && comm_.rank() == 0)
        std::snprintf(memory_.answer, sizeof memory_.answer, "%s",
                      comm_.chosen_algorithm(order.call.collective, order.bytes).c_str());
      sync_.gather();
      if (comm_.rank() == 0) tell(answers);
      if (order.kind == Order::Kind::leave) return;
    }
  }

  static void tell(int answers) {
    const char byte = 1;
    if (::write(answers, &byte, 1) != 1) throw Error{ErrorCode::aborted, "the directing process has ended"};
  }

  void gather() { sync_.gather(); }

 private:
  void measure(const Order& order) {
    if (!order.call.is_collective()) throw Error{ErrorCode::unsupported, "send_recv has no algorithms"};
    calls_->take(measure::task_of(order.call, comm_.rank(), comm_.size(), order.bytes));
    int stamp = 0;
    for (int i = 0; i < order.count; ++i) {
      const Turn& turn = order.turns[i];
      for (int k = 0; k < turn.warm; ++k) calls_->make(turn.algorithm);
      for (int k = 0; k < (order.loop ? 1 : turn.calls); ++k, ++stamp) {
        sync_.align();
        sync_.begin_of(comm_.rank())[stamp] = measure::microseconds_now();
        for (int repeat = 0; repeat < (order.loop ? turn.calls : 1); ++repeat) calls_->make(turn.algorithm);
        sync_.end_of(comm_.rank())[stamp] = measure::microseconds_now();
      }
    }
  }

  WorkerMemory& memory_;
  Communicator comm_;
  measure::RankSync sync_;
  std::unique_ptr<Calls> calls_;
};

}  // namespace

int live_as_rank(WorkerMemory& memory, int rank, const WorkerOptions& options, const std::string& rendezvous,
                 int orders, int answers) {
  try {
    // These would override the table, or change the measurement.
    for (const char* name : {"TUTTI_ALGO", "TUTTI_TUNING_FILE", "TUTTI_PLAN_FILE", "TUTTI_DETERMINISTIC",
                             "TUTTI_TRANSPORT", "TUTTI_GPU_MODE"})
      ::unsetenv(name);
    // Before connect() starts a thread, which may read the environment.
    if (options.transport == links_kind) ::setenv("TUTTI_GPU_MODE", "streams", 1);
    ConnectOptions how;
    how.rank = rank;
    how.size = options.ranks;
    how.rendezvous = rendezvous;
    how.transport = options.gpus > 0 ? "shm" : options.transport;
    how.tuning_file = options.tuning_file;
    WorkerRank self{memory, connect(how), options};
    self.gather();
    if (rank == 0) WorkerRank::tell(answers);
    self.obey(orders, answers);
    return 0;
  } catch (const std::exception& error) {
    if (!memory.in_trouble.exchange(true)) {
      std::snprintf(memory.trouble, sizeof memory.trouble, "rank %d: %s", rank, error.what());
      memory.told.store(true);
    }
    return 1;
  }
}

}  // namespace tutti::cli::tune
