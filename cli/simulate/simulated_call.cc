#include "cli/simulate/simulated_call.h"

#include "algorithms/describe.h"
#include "lib/base/collective_traits.h"

namespace tutti::cli::simulate {
namespace {

/// A rank's part of some bytes, or all of them, in elements of that size.
struct Part {
  std::size_t parts;
  std::size_t elements;
  std::size_t element;
};

Part part_of(Collective collective, int ranks, std::size_t bytes, std::size_t known_element) {
  if (!detail::traits_of(collective).has_parts()) {
    const std::size_t element = known_element > 0 ? known_element : bytes % 4 == 0 ? 4 : 1;
    return {1, bytes / element, element};
  }
  const auto parts = static_cast<std::size_t>(ranks);
  const std::size_t element = known_element > 0 ? known_element : bytes / parts >= 4 ? 4 : 1;
  return {parts, bytes / parts / element, element};
}

detail::Partition partition_of(const SimulatedCall& simulated) {
  const Part part = part_of(simulated.collective, simulated.ranks, simulated.bytes, simulated.element);
  return detail::Partition::of(simulated.collective, part.elements, simulated.ranks, simulated.pipeline(),
                               part.element);
}

}  // namespace

std::size_t moved_bytes(Collective collective, int ranks, std::size_t bytes) {
  const Part part = part_of(collective, ranks, bytes, 0);
  return part.parts * part.elements * part.element;
}

algorithms::Plan SimulatedCall::plan(int rank) const {
  if (given != nullptr) return given->at(static_cast<std::size_t>(rank));
  return choice.entry->build(algorithms::shape_of(choice, rank, ranks, root));
}

BlockSizes::BlockSizes(const SimulatedCall& simulated) : partition_(partition_of(simulated)) {}

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
