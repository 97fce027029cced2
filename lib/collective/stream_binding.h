#pragma once

#include "algorithms/stream_program.h"
#include "lib/collective/arithmetic.h"
#include "lib/collective/binding.h"
#include "tutti/types.h"

namespace tutti::detail {

/// Where the blocks of a call begin, in elements. `input` and `output` are cut as the plan of that shape asks.
algorithms::StreamSizes stream_sizes(const Partition& input, const Partition& output, const algorithms::Shape& shape,
                                     std::size_t element_size);

/// What a call does on a stream before and after its plan. Averages have the bits of BoundCall: there each block
/// becomes a contribution when it is first sent, here all of them do at the beginning of a round.
algorithms::StreamStages stream_stages(Collective collective, const Arithmetic& arithmetic, bool in_place);

}  // namespace tutti::detail
