// Plans as MSCCL programs.
//
// A rank gets a thread block per lane, so that messages to and from one peer keep their order, and one for local steps,
// in the order in which a run of all plans reaches them. So no step waits, even across ranks, for a step behind it. All
// other waiting is expressed by dependencies. A thread block's next step waits for the one before it anyway, and each
// dependency after the first takes a `nop`.

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "algorithms/describe.h"
#include "algorithms/replay.h"
#include "cli/plan/interchange/msccl.h"
#include "cli/plan/interchange/msccl_chunks.h"
#include "lib/base/collective_traits.h"
#include "tutti/error.h"

namespace tutti::cli::interchange {
namespace {

using algorithms::Blocks;
using algorithms::Buffer;
using algorithms::Plan;
using algorithms::Step;
using algorithms::StepId;
using algorithms::Verb;

constexpr std::size_t none = ~std::size_t{0};

/// One rank's plan, distributed over thread blocks.
class Distribution {
 public:
  Distribution(Collective collective, const Plan& plan, const std::vector<algorithms::StepTime>& times)
      : plan_(plan), chunks_(collective, plan.shape), predecessors_(plan.steps.size()) {
    for (StepId step = 0; step < plan.steps.size(); ++step)
      for (const StepId next : plan.successors(step)) predecessors_[next].push_back(step);
    for (const algorithms::Lane& lane : plan.lanes) {
      MscclBlock block{.id = static_cast<int>(order_.size())};
      (lane.direction == algorithms::Direction::out ? block.send : block.recv) = lane.peer;
      blocks_.push_back(block);
      order_.emplace_back();
      for (StepId at = lane.first; at != algorithms::no_step; at = plan.next_on_lane[at]) order_.back().push_back(at);
    }
    std::vector<StepId> local;
    for (StepId step = 0; step < plan.steps.size(); ++step)
      if (algorithms::is_local(plan.steps[step].verb)) local.push_back(step);
    if (!local.empty()) {
      std::stable_sort(local.begin(), local.end(), [&](StepId a, StepId b) { return times[a].begin < times[b].begin; });
      blocks_.push_back({.id = static_cast<int>(order_.size())});
      order_.push_back(std::move(local));
    }
  }

  MscclGpu gpu() && {
    find_places();
    choose_dependencies();
    for (std::size_t block = 0; block < order_.size(); ++block)
      for (const StepId step : order_[block]) write(blocks_[block], step);
    MscclGpu gpu{.id = plan_.shape.rank};
    gpu.i_chunks = chunks_.count(Buffer::input);
    gpu.o_chunks = chunks_.count(Buffer::output);
    gpu.s_chunks = static_cast<int>(plan_.scratch_like.size());
    gpu.blocks = std::move(blocks_);
    return gpu;
  }

 private:
  /// The position of a step: its thread block, and its index among the plan's steps there.
  struct Place {
    std::size_t block = none;
    std::size_t position = 0;
  };

  void find_places() {
    places_.resize(plan_.steps.size());
    for (std::size_t block = 0; block < order_.size(); ++block)
      for (std::size_t position = 0; position < order_[block].size(); ++position)
        places_[order_[block][position]] = {block, position};
  }

  /// Per step and other thread block: the last step there that it must wait for, unless an earlier step has waited for
  /// that.
  void choose_dependencies() {
    waits_.resize(plan_.steps.size());
    is_waited_for_.assign(plan_.steps.size(), false);
    for (const std::vector<StepId>& order : order_) {
      std::vector<std::size_t> reached(order_.size(), none);  // position up to which other blocks are known to be done
      for (const StepId step : order) {
        std::vector<std::size_t> wanted(order_.size(), none);
        for (const StepId before : predecessors_[step]) {
          const Place& place = places_[before];
          if (place.block == places_[step].block) continue;
          if (wanted[place.block] == none || wanted[place.block] < place.position) wanted[place.block] = place.position;
        }
        for (std::size_t block = 0; block < wanted.size(); ++block) {
          if (wanted[block] == none || (reached[block] != none && reached[block] >= wanted[block])) continue;
          reached[block] = wanted[block];
          waits_[step].push_back(order_[block][wanted[block]]);
          is_waited_for_[waits_[step].back()] = true;
        }
      }
    }
    number_steps();
  }

  /// Numbers the steps as in the file, where nops count.
  void number_steps() {
    number_.resize(plan_.steps.size());
    for (const std::vector<StepId>& order : order_) {
      int next = 0;
      for (const StepId step : order) {
        const bool two = is_two(plan_.steps[step]);
        next += static_cast<int>(std::max<std::size_t>(waits_[step].size(), 1)) + (two ? 1 : 0);
        number_[step] = next - 1;
      }
    }
  }

  /// A reduction into a third place needs a copy first.
  static bool is_two(const Step& step) { return step.verb == Verb::reduce && step.dst != step.left; }

  void write(MscclBlock& block, StepId id) {
    const Step& step = plan_.steps[id];
    std::vector<MscclStep> written;
    for (std::size_t i = 1; i < waits_[id].size(); ++i) written.push_back({.type = "nop"});
    if (is_two(step)) written.push_back(instruction("cpy", step.left, step.dst));
    switch (step.verb) {
      case Verb::send:
        written.push_back(instruction("s", step.left, {}));
        break;
      case Verb::recv:
        written.push_back(instruction("r", {}, step.dst));
        break;
      case Verb::recv_reduce:
        written.push_back(instruction("rrc", step.left, step.dst));
        break;
      case Verb::copy:
        written.push_back(instruction("cpy", step.left, step.dst));
        break;
      case Verb::reduce:
        written.push_back(instruction("re", step.right, step.dst));
        break;
    }
    for (std::size_t i = 0; i < waits_[id].size(); ++i) {
      written[i].depid = static_cast<int>(places_[waits_[id][i]].block);
      written[i].deps = number_[waits_[id][i]];
    }
    written.back().hasdep = is_waited_for_[id];
    block.steps.insert(block.steps.end(), written.begin(), written.end());
  }

  MscclStep instruction(const char* type, const Blocks& src, const Blocks& dst) const {
    MscclStep step{.type = type, .cnt = std::max(src.count, dst.count)};
    if (src.count > 0) {
      step.srcbuf = chunks_.letter(src.buffer);
      step.srcoff = chunks_.offset(src);
    }
    if (dst.count > 0) {
      step.dstbuf = chunks_.letter(dst.buffer);
      step.dstoff = chunks_.offset(dst);
    }
    return step;
  }

  const Plan& plan_;
  const Chunks chunks_;
  std::vector<std::vector<StepId>> predecessors_;
  std::vector<MscclBlock> blocks_;
  std::vector<std::vector<StepId>> order_;  // per thread block
  std::vector<Place> places_;               // per step
  std::vector<std::vector<StepId>> waits_;
  std::vector<bool> is_waited_for_;
  std::vector<int> number_;
};

}  // namespace

std::string_view msccl_name(Collective collective) {
  switch (collective) {
    case Collective::all_reduce:
      return "allreduce";
    case Collective::reduce:
      return "reduce";
    case Collective::broadcast:
      return "broadcast";
    case Collective::all_gather:
      return "allgather";
    case Collective::reduce_scatter:
      return "reducescatter";
    case Collective::scatter:
      return "scatter";
    case Collective::gather:
      return "gather";
    case Collective::all_to_all:
      return "alltoall";
    case Collective::barrier:
    case Collective::scan:
    case Collective::exclusive_scan:
      break;
  }
  return {};
}

std::optional<Collective> collective_of_msccl(std::string_view name) {
  std::string plain{name};
  std::erase(plain, '_');
  for (const detail::CollectiveTraits& traits : detail::collective_traits)
    if (!plain.empty() && msccl_name(traits.collective) == plain) return traits.collective;
  return {};
}

MscclProgram msccl_program(const std::string& name, Collective collective, const std::vector<Plan>& plans) {
  if (msccl_name(collective).empty())
    throw Error{ErrorCode::unsupported, fmt::format("MSCCL has no collective {}", name_of(collective))};
  const algorithms::Shape& shape = plans.at(0).shape;
  MscclProgram program{.name = name, .coll = std::string{msccl_name(collective)}};
  program.nchunksperloop = shape.ranks * shape.pipeline;
  program.inplace = detail::traits_of(collective).in_place != detail::InPlace::never;
  program.outofplace = detail::traits_of(collective).in_place != detail::InPlace::always;
  program.root = shape.root;
  const algorithms::Replay run = algorithms::replay(collective, plans, {.equal_parts = true}, {});
  if (!run.problems.empty())
    throw Error{ErrorCode::invalid_argument, "a wrong plan is not exported: " + run.problems.front()};
  for (std::size_t rank = 0; rank < plans.size(); ++rank)
    program.gpus.push_back(Distribution{collective, plans[rank], run.steps[rank]}.gpu());
  return program;
}

std::string beyond_limits(const MscclProgram& program) {
  using Limits = MscclLimits;
  for (const MscclGpu& gpu : program.gpus) {
    if (gpu.blocks.size() > Limits::thread_blocks)
      return fmt::format("gpu {} has {} thread blocks, the runtime takes {}", gpu.id, gpu.blocks.size(),
                         Limits::thread_blocks);
    for (const MscclBlock& block : gpu.blocks) {
      if (block.steps.size() > Limits::steps)
        return fmt::format("gpu {} thread block {} has {} steps, the runtime takes {}", gpu.id, block.id,
                           block.steps.size(), Limits::steps);
      for (const MscclStep& step : block.steps)
        if (step.cnt > Limits::chunks_at_once)
          return fmt::format("gpu {} thread block {} moves {} chunks at once, the runtime takes {}", gpu.id, block.id,
                             step.cnt, Limits::chunks_at_once);
    }
  }
  return {};
}

}  // namespace tutti::cli::interchange
