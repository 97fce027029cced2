#include "lib/collective/stream_binding.h"

#include "lib/base/collective_traits.h"

namespace tutti::detail {

algorithms::StreamSizes stream_sizes(const Partition& input, const Partition& output, const algorithms::Shape& shape,
                                     std::size_t element_size) {
  algorithms::StreamSizes sizes;
  for (int block = 0; block <= shape.ranks * shape.pipeline; ++block) {
    sizes.input.push_back(input.offset(block) / element_size);
    sizes.output.push_back(output.offset(block) / element_size);
  }
  return sizes;
}

algorithms::StreamStages stream_stages(Collective collective, const Arithmetic& arithmetic, bool in_place) {
  using Input = algorithms::StreamStages::Input;
  const CollectiveTraits& traits = traits_of(collective);
  algorithms::StreamStages stages;
  stages.in_place = in_place && traits.in_place != InPlace::always;
  if (traits.reduces()) {
    if (arithmetic.averages() || arithmetic.premultiplies()) stages.input = Input::scaled;
    stages.divides = arithmetic.averages();
    stages.sums_apart = arithmetic.sum_size() != arithmetic.element_size();
  } else if (stages.in_place && traits.in_place == InPlace::never) {
    stages.input = Input::copied;
  }
  return stages;
}

}  // namespace tutti::detail
