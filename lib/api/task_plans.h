#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/stream_program.h"
#include "algorithms/window_program.h"
#include "lib/api/runners.h"
#include "lib/collective/call_buffers.h"
#include "lib/collective/collectives.h"
#include "lib/collective/planner.h"
#include "lib/gpu/device_windows.h"
#include "lib/gpu/stream_lowering.h"
#include "lib/group/group.h"
#include "transport/cuda_ipc/stream_links.h"
#include "tutti/request.h"

namespace tutti::detail {

/// The calls of a communicator in which ranks use each other's memory: which they are, and how they become commands.
/// Threading: one thread at a time.
class TaskPlans {
 public:
  /// `planner` is of plans for streams, and lives as long.
  TaskPlans(Group& group, Planner& planner, Runners runners);

  /// The tasks of a plan.
  struct Tasks {
    std::vector<algorithms::WindowProgram> programs;  ///< of all ranks; empty: it has none
    bool collides_in_place = false;
  };
  struct Planned {
    const Prepared* prepared = nullptr;
    const Tasks* tasks = nullptr;  ///< null: messages go over links
    DeviceLocation location{};     ///< of the buffers
    bool copies_first = false;     ///< the inputs, which a rank might overwrite while others read them
    bool in_kernels = false;       ///< these signal and wait themselves, where they can

    /// Of the algorithm, for the operation that stands for the call.
    std::string stand_in_name() const;
  };
  /// The same on all ranks. Nothing: the call cannot run so, or should not.
  std::optional<Planned> plan(const Request& request);

  /// What lower() needs of a call.
  struct Call {
    const Request& request;
    const CallBuffers& buffers;
    std::size_t element_size = 1;
    const transport::StreamLinks::Form& form;
  };
  /// Adds the commands of a planned call.
  void lower(const Planned& planned, const Call& call, algorithms::StreamCounters& counters,
             algorithms::StreamCommands& commands, DeviceAreas& areas) const;

  /// Whether the tuning table wants the call to go through the host. A mode that is asked for outranks it.
  bool stages(const Request& request) const {
    return runners_.mode == GpuMode::automatic && planner_.stages(Collectives::wish_of(request, group_.size()));
  }

  const Runners& runners() const { return runners_; }
  /// Memory that ranks can use of each other. Null: they do not.
  const std::shared_ptr<DeviceWindows>& windows() const { return windows_; }

 private:
  const Tasks& tasks_of(Collective collective, const Prepared& prepared);

  Group& group_;
  Planner& planner_;
  const Runners runners_;
  const std::shared_ptr<DeviceWindows> windows_;
  std::map<const Prepared*, Tasks> tasks_;
};

}  // namespace tutti::detail
