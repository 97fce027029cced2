#include "cli/simulate/task.h"

#include "algorithms/describe.h"
#include "lib/base/collective_traits.h"

namespace tutti::cli::simulate {
namespace {

detail::Partition partition_of(const Task& task) {
  const std::size_t element = task.bytes % 4 == 0 ? 4 : 1;
  const std::size_t parts = detail::traits_of(task.collective).has_parts() ? static_cast<std::size_t>(task.ranks) : 1;
  return detail::Partition::of(task.collective, task.bytes / parts / element, task.ranks, task.choice.pipeline,
                               element);
}

}  // namespace

algorithms::Plan Task::plan(int rank) const {
  return choice.entry->build({rank, ranks, root, choice.pipeline, choice.radix});
}

BlockSizes::BlockSizes(const Task& task) : partition_(partition_of(task)) {}

std::size_t BlockSizes::of(const algorithms::Plan& plan, const algorithms::Blocks& blocks) const {
  if (blocks.buffer != algorithms::Buffer::scratch) return of(blocks.first, blocks.count);
  // Adding slot by slot would be slow: a rank of `direct` has as many slots as the square of the number of ranks.
  const auto begin = plan.scratch_like.begin() + blocks.first, end = begin + blocks.count;
  std::size_t bytes = 0;
  for (auto run = begin; run != end;) {
    auto next = run + 1;
    while (next != end && *next == *(next - 1) + 1) ++next;
    bytes += of(*run, static_cast<int>(next - run));
    run = next;
  }
  return bytes;
}

const algorithms::Blocks& range_of(const algorithms::Step& step) {
  return algorithms::writes_dst(step.verb) ? step.dst : step.left;
}

}  // namespace tutti::cli::simulate
