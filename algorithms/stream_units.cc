#include "algorithms/stream_units.h"

#include <algorithm>

#include "algorithms/describe.h"
#include "lib/base/collective_traits.h"
#include "lib/base/index.h"

namespace tutti::algorithms {
namespace {

/// The block of the vector that has the size of a block of input, output or scratch.
int like(const Plan& plan, const Blocks& blocks, int i) {
  const int block = blocks.first + i;
  return blocks.buffer == Buffer::scratch ? plan.scratch_like[at(block)] : block;
}

}  // namespace

StreamUnits StreamUnits::of(Collective collective, std::span<const Plan> plans) {
  StreamUnits units;
  const Shape& shape = plans[0].shape;
  // Where each pair of ranks exchanges a part of its own, neighbours at one end of a message are none at the other.
  const bool exchanges = detail::traits_of(collective).exchanges();
  units.begins_.assign(at(shape.ranks * shape.pipeline) + 1, exchanges);
  for (const Plan& plan : plans) {
    const auto cut = [&](const Blocks& blocks) {
      for (int i = 0; i < blocks.count; ++i) {
        const int block = like(plan, blocks, i);
        if (i == 0 || like(plan, blocks, i - 1) + 1 != block) units.begins_[at(block)] = true;
        if (i + 1 == blocks.count || like(plan, blocks, i + 1) != block + 1) units.begins_[at(block) + 1] = true;
      }
    };
    for (const Step& step : plan.steps) {
      if (writes_dst(step.verb)) cut(step.dst);
      if (reads_left(step.verb)) cut(step.left);
      if (reads_right(step.verb)) cut(step.right);
    }
  }
  for (const Plan& plan : plans)
    for (const Step& step : plan.steps) {
      if (!sends(step.verb)) continue;
      std::size_t count = 0;
      units.for_each(plan, step.left, [&](const Blocks&) { ++count; });
      units.most_in_message_ = std::max(units.most_in_message_, count);
    }
  return units;
}

Blocks StreamUnits::first_of(const Plan& plan, const Blocks& blocks) const {
  int count = 1;
  while (count < blocks.count && !begins_[at(like(plan, blocks, count))] &&
         like(plan, blocks, count) == like(plan, blocks, count - 1) + 1)
    ++count;
  return {blocks.buffer, blocks.first, count};
}

}  // namespace tutti::algorithms
