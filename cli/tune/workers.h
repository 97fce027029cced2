#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <string>
#include <vector>

#include "cli/measure/rank_sync.h"
#include "cli/tune/order.h"
#include "lib/base/descriptor.h"
#include "lib/base/host.h"

namespace tutti::cli::tune {

/// Memory shared by the ranks and the directing process.
struct WorkerMemory {
  measure::Shared shared;
  Order order;
  char answer[name_room];
  char trouble[512];
  std::atomic<bool> in_trouble;  ///< a rank has failed
  std::atomic<bool> told;        ///< and its message is complete
};

struct WorkerOptions {
  std::string transport;  ///< of calls on GPUs their kind
  int ranks = 2;
  std::size_t most_bytes = 0;
  std::string tuning_file;  ///< tuning table of the ranks; empty: the built-in table
  bool bind_to_core = true;
  std::vector<std::string> namespaces = {};  ///< of the network (ip netns), one per rank; empty: all ranks stay here
  int gpus = 0;                              ///< that ranks share; 0: calls are on memory of the host
  std::string who = "tune";                  ///< the subcommand, for error messages
  int cores = available_cores();             ///< of all ranks together, before they are bound
};

/// Ranks of one job on this host, forked from this process, which execute orders. This process must have no other
/// threads. Every wait ends: if a rank fails, or an order takes longer than a minute, it throws Error with the rank's
/// message. A signal that was noted in `told_to_stop` throws Error{aborted}. The ranks never outlive this object or
/// this process.
class Workers {
 public:
  explicit Workers(const WorkerOptions& options);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// For each turn, the median over its calls of the slowest rank's time, in microseconds; in a loop, the time per
  /// call.
  std::vector<double> measure(const Order& order);
  /// The algorithm that the ranks' table chooses.
  std::string choice(measure::MeasuredCall call, std::size_t bytes);

 private:
  void do_order(const Order& order);
  void wait_for_answer();
  void dismiss();
  void end() noexcept;
  [[noreturn]] void fail(int status);

  WorkerOptions options_;
  WorkerMemory* memory_;
  std::string folder_;
  std::vector<pid_t> ranks_;
  Descriptor orders_;   ///< written: a byte for each order
  Descriptor answers_;  ///< read: a byte when it is done
  bool owed_ = false;   ///< an answer will never come: ranks that wait for a dead one take no other order
};

/// The life of one rank, in a process of its own, in rank.cc. Returns its exit code.
int live_as_rank(WorkerMemory& memory, int rank, const WorkerOptions& options, const std::string& rendezvous,
                 int orders, int answers);

}  // namespace tutti::cli::tune
