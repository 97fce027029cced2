#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/stream_program.h"
#include "lib/api/staged_links.h"
#include "lib/api/stream_bound.h"
#include "lib/api/stream_flight.h"
#include "lib/api/task_plans.h"
#include "lib/collective/collectives.h"
#include "lib/gpu/call_order.h"
#include "lib/gpu/device_stream.h"
#include "lib/gpu/growing_memory.h"
#include "lib/gpu/stream_lowering.h"
#include "lib/gpu/stream_trace.h"
#include "transport/cuda_ipc/stream_links.h"
#include "tutti/work.h"

namespace tutti::detail {

class StreamCapture;

/// The collectives of one communicator that run on the streams of GPUs: the steps of a plan become commands on the
/// stream of the call, and messages go from one GPU's memory to another's without the host. Those to other hosts go by
/// way of pinned memory (StagedLinks).
///
/// An operation stands for each call in the engine. It compares the call with those of the other ranks, and is over
/// when they are the same and the stream has passed the call. If it fails, all waits of this rank end, so that no
/// stream is stuck.
///
/// Calls of a communicator follow each other on the GPU, since they use the same slots and the same scratch memory.
/// Threading: any thread.
class StreamCalls {
 public:
  /// What all ranks know of the hosts.
  struct Hosts {
    transport::Channel channel = 0;  ///< of messages between them
    int ranks_on_each = 0;           ///< neighbouring ranks; 0: hosts differ, or their ranks are not neighbours
  };
  /// `links`: of this communicator, on the GPU of `context`. `kernels`: null where a rank has none, and calls that
  /// combine are not served.
  StreamCalls(Group& group, Collectives& collectives, std::unique_ptr<transport::StreamLinks> links, Runners runners,
              const Hosts& hosts, const DeviceKernels* kernels, cuda::Context context);
  StreamCalls(const StreamCalls&) = delete;
  ~StreamCalls();

  using Planned = TaskPlans::Planned;
  /// The plan of a checked call, the same on all ranks. Nothing: such a call does not run on streams.
  std::optional<Planned> plan(const Request& request);
  /// Enqueues the call. `stream`: for this rank's memory, if it has any in the call.
  Work start(const Request& request, const Planned& planned, const DeviceStream& stream, bool asynchronous);
  /// For streams that are being captured.
  StreamCapture& graphs() { return *graphs_; }

  const std::shared_ptr<DeviceWindows>& windows() const { return tasks_.windows(); }
  cuda::Context context() const { return context_.get(); }
  cuda::Device device() const { return device_; }
  /// Whether streams have not passed all calls.
  bool has_calls() const { return flight_->has_calls(); }
  /// Lets go of graphs that are gone, and of windows that were removed, unless calls may use them. The driver may wait
  /// for all streams meanwhile.
  void drop_removed_windows();
  /// Moves some bytes over all links between ranks that share memory, and looks at them. False: they came as something
  /// else. Throws if they do not come within `limit`, or if the driver fails.
  bool try_links(std::chrono::milliseconds limit);
  /// The group is about to say bye.
  void leave() noexcept;

 private:
  friend class StreamCapture;

  /// A call as commands.
  struct Lowered {
    PartOffsets offsets;  ///< of a _v call
    algorithms::StreamCommands commands;
    std::shared_ptr<StagedLinks::Call> staged;  // null: all ranks share memory
    algorithms::StreamCounters after;
    DeviceAreas areas;
    DeviceArithmetic arithmetic;
    std::shared_ptr<StreamTrace::Call> traced{};  // null: it is not
  };
  /// The plans of all ranks, in so far as a stream needs them.
  struct Units {
    algorithms::StreamUnits units;
    bool in_order = true;  // with these slots streams do not deadlock
  };

  const Units& units_of(Collective collective, const Prepared& prepared);
  void enter(const cuda::KnownContext& context);
  void fail_with_device(const std::string& why);
  Lowered get_ready(const Request& request, const Planned& planned, const DeviceStream& stream, StreamBound& bound,
                    const algorithms::StreamCounters& before);
  Lowered lower(const StreamBound& bound, const Planned& planned, const algorithms::StreamCounters& before);
  Lowered lower_trial(cuda::Address memory);
  bool drain(cuda::Stream stream);
  template <class Enqueue>
  void submit(Operation& operation, const std::shared_ptr<StagedLinks::Call>& call, const Enqueue& enqueue);
  void enqueue(const StreamBound& bound, const Lowered& lowered, const DeviceStream& stream, Operation& operation);
  void add(const StreamBound& bound, const Lowered& lowered, cuda::Commands& to, bool is_captured) const;
  void notice_passing(cuda::Commands& to, const Lowered& lowered, Operation& operation);

  Group& group_;
  Collectives& collectives_;
  const DeviceKernels* const kernels_;
  const cuda::KnownContext context_;
  const cuda::Device device_;
  const int multiprocessors_;
  std::shared_ptr<transport::StreamLinks> links_;  // also of graphs
  std::shared_ptr<StagedLinks> staged_;            // null: all ranks share memory
  const std::shared_ptr<StreamFlight> flight_;
  std::mutex mutex_;  // of all that follows
  Planner planner_;
  TaskPlans tasks_;
  std::map<const Prepared*, Units> units_;
  algorithms::StreamCounters counters_;
  std::shared_ptr<StreamMemory> memory_ = std::make_shared<StreamMemory>();  // also of graphs
  CallOrder order_;
  std::unique_ptr<StreamCapture> graphs_;
  DeviceWatch watch_;                   // of the events of order_
  std::unique_ptr<StreamTrace> trace_;  // null: no trace is recorded
};

}  // namespace tutti::detail
