#include "lib/api/task_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "algorithms/board_program.h"
#include "algorithms/catalogue.h"
#include "algorithms/stream_tasks.h"
#include "lib/api/communicator_state.h"
#include "lib/base/collective_traits.h"
#include "lib/base/gpu/context.h"
#include "lib/base/index.h"
#include "lib/collective/call_buffers.h"
#include "lib/collective/stream_binding.h"
#include "lib/failure/diagnosis.h"
#include "lib/group/context.h"

namespace tutti::detail {
namespace {

/// From that size on copies by each rank of a shared GPU, which has to be given to one after the other, should be
/// faster than the way through the host. Not measured as calls, but concluded from docs/gpu-measurements.md: kernels of
/// 4 ranks that take turns took 0.6 ms, and an all_reduce of 4 MiB through the host 1.7 ms, of 256 KiB 0.2 ms.
constexpr std::size_t least_by_copies = std::size_t{4} << 20;

}  // namespace

// ---- What was agreed -----------------------------------------------------------------------------------------------

const char* name_of(GpuMode mode) {
  constexpr const char* names[] = {"auto", "staged", "streams", "leader", "one-shot", "two-shot", "kernel"};
  return names[static_cast<std::size_t>(mode)];
}

GpuMode agreed_mode(const std::vector<GpuMode>& all) {
  if (std::ranges::count(all, GpuMode::staged) > 0) return GpuMode::staged;
  std::size_t first = 0;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] == GpuMode::automatic || all[rank] == all[first]) continue;
    if (all[first] != GpuMode::automatic)
      throw Error{ErrorCode::mismatch,
                  fmt::format("TUTTI_GPU_MODE is {} on rank {} and {} on rank {}: give all ranks the same",
                              name_of(all[first]), first, name_of(all[rank]), rank),
                  static_cast<int>(rank)};
    first = rank;
  }
  return all[first];
}

Runners runners_for(GpuMode mode, const std::vector<int>& gpus) {
  Runners made{.mode = mode};
  if (mode == GpuMode::streams || mode == GpuMode::staged || std::cmp_greater(gpus.size(), most_sharing)) return made;
  std::vector<int> own(gpus.size());
  std::iota(own.begin(), own.end(), 0);
  made.alone = gpus != own;
  made.by_rank = mode == GpuMode::one_shot || mode == GpuMode::two_shot ? own : gpus;
  return made;
}

std::string_view Runners::transport() const {
  if (by_rank.empty()) return "cuda_ipc";
  return alone ? "cuda_leader" : "cuda_peers";
}

std::string_view Runners::algorithm(Collective collective) const {
  if (traits_of(collective).is_scan() || (mode != GpuMode::one_shot && mode != GpuMode::two_shot)) return {};
  return collective == Collective::all_reduce && mode == GpuMode::two_shot ? "direct_two_shot" : "direct";
}

bool Runners::copies(std::size_t bytes) const {
  return mode != GpuMode::automatic || !alone || bytes >= least_by_copies;
}

/// A kernel that waits keeps its GPU, which no rank elsewhere in the job may need meanwhile: only the program knows
/// that. The trial of the links does not try it either, and a kernel that could not reach the words would wait until
/// the deadline.
bool Runners::meet_in_kernels() const { return mode == GpuMode::kernel; }

std::string to_string(const Runners& runners) {
  if (runners.by_rank.empty()) return {};
  const std::set<int> leaders{runners.by_rank.begin(), runners.by_rank.end()};
  const bool are_led = leaders.size() < runners.by_rank.size();
  return std::string{", or by kernels that use the memory of all ranks"} +
         (are_led ? ", one rank's on each GPU; all other calls are staged" : "") +
         (runners.meet_in_kernels() ? ", and wait for each other" : "");
}

TaskPlans::TaskPlans(Group& group, Planner& planner, Runners runners)
    : group_(group),
      planner_(planner),
      runners_(std::move(runners)),
      windows_(runners_.by_rank.empty() ? nullptr : std::make_shared<DeviceWindows>()) {}

// ---- Planning ------------------------------------------------------------------------------------------------------

const TaskPlans::Tasks& TaskPlans::tasks_of(Collective collective, const Prepared& prepared) {
  const auto found = tasks_.find(&prepared);
  if (found != tasks_.end()) return found->second;
  Tasks& made = tasks_[&prepared];
  const algorithms::GivenPlans* const given = planner_.settings().given.get();
  if (given && given->collective == collective && given->name == prepared.name) return made;
  algorithms::Choice choice = algorithms::find(collective, prepared.name);
  if (!choice.entry->mesh) return made;
  const algorithms::Shape& shape = prepared.plan.shape;
  choice.pipeline = shape.pipeline;
  choice.radix = shape.radix;
  const algorithms::Lowering on_board = algorithms::lower_to_board(algorithms::plans_of_all(choice, shape));
  if (on_board.programs.empty()) return made;
  const auto windows = algorithms::lower_to_windows(on_board.programs, shape.root);
  if (windows.empty()) return made;
  made.programs = algorithms::run_by(windows, runners_.by_rank);
  made.collides_in_place = algorithms::collide_in_place(made.programs, at(shape.ranks * shape.pipeline));
  return made;
}

/// A buffer that only the root gives is always copied, since the others do not know whether it is in a window. Each
/// rank has a factor of its own for premul_sum, which the others do not know either.
std::optional<TaskPlans::Planned> TaskPlans::plan(const Request& request) {
  if (!windows_ || request.variable || (request.op && request.op->kind() == OpKind::premul_sum)) return std::nullopt;
  Planner::Wish wish = Collectives::wish_of(request, group_.size());
  if (wish.bytes == 0) return std::nullopt;
  if (wish.algorithm.empty() && !planner_.has_default(wish)) wish.algorithm = runners_.algorithm(request.collective);
  const Prepared& prepared = planner_.prepare(wish);
  const Tasks& tasks = tasks_of(request.collective, prepared);
  if (tasks.programs.empty()) return std::nullopt;
  const CollectiveTraits& traits = traits_of(request.collective);
  const algorithms::WindowProgram& any = tasks.programs.front();
  const bool wants_input = any.shares_input && traits.input.holders == Holders::all;
  const bool wants_output = (any.shares_output || tasks.collides_in_place) && traits.output.holders == Holders::all;
  Planned planned{&prepared, &tasks,
                  windows_->locate(name_on_rank(request, group_), request, wants_input, wants_output, group_.rank())};
  // Whether input and output are the same memory may differ between ranks, but not where they are.
  const bool is_apart = wants_input && wants_output && planned.location.is_apart();
  planned.copies_first = tasks.collides_in_place && !is_apart;
  const bool copies = planned.copies_first || (any.shares_input && !planned.location.input) ||
                      (any.shares_output && !planned.location.output);
  if (copies && !runners_.copies(wish.bytes)) return std::nullopt;
  planned.in_kernels = runners_.meet_in_kernels();
  return planned;
}

std::string TaskPlans::Planned::stand_in_name() const {
  return prepared->name + std::string{tasks ? as_tasks : ""} + std::string{on_streams};
}

// ---- Commands ------------------------------------------------------------------------------------------------------

void TaskPlans::lower(const Planned& planned, const Call& call, algorithms::StreamCounters& counters,
                      algorithms::StreamCommands& commands, DeviceAreas& areas) const {
  const CallBuffers& buffers = call.buffers;
  const std::size_t element = call.element_size;
  const algorithms::Shape& shape = planned.prepared->plan.shape;
  const DeviceLocation& location = planned.location;
  const algorithms::WindowProgram& any = planned.tasks->programs.front();
  const algorithms::StreamSizes sizes = stream_sizes(buffers.input.partition, buffers.output.partition, shape, element);
  const algorithms::TaskStages stages{.reduces = traits_of(call.request.collective).reduces(),
                                      .copies_input = planned.copies_first || (any.shares_input && !location.input),
                                      .copies_output = any.shares_output && !location.output,
                                      .all_by_copies = planned.copies_first,
                                      .in_kernels = planned.in_kernels};
  const algorithms::StreamTasks program{group_.rank(), planned.tasks->programs,           sizes,
                                        stages,        call.form.staging_bytes / element, call.form.slots};
  for (std::size_t round = 0; round < program.rounds(); ++round) program.add_round(round, counters, commands);
  const auto of_ranks = [&](const DeviceWindow& window, std::size_t offset, const std::vector<std::size_t>& begin,
                            bool own_part) {
    std::vector<cuda::Address> origins;
    for (int rank = 0; rank < group_.size(); ++rank)
      origins.push_back(window.parts[at(rank)].address + offset -
                        (own_part ? begin[at(rank * shape.pipeline)] * element : 0));
    return origins;
  };
  if (location.input)
    areas.peer_input =
        of_ranks(*location.input, location.input_offset, sizes.input, buffers.own_input && !location.part_in_place);
  if (location.output)
    areas.peer_output =
        of_ranks(*location.output, location.output_offset, sizes.output, buffers.own_output && !location.part_in_place);
}

}  // namespace tutti::detail
