#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cli/simulate/simulated_call.h"
#include "cli/trace/read.h"

namespace tutti::cli {

/// A call predicted from its plan, in nanoseconds from its beginning.
struct Prediction {
  double end = 0;
  struct Message {
    int from = 0;            ///< in the group
    std::uint32_t step = 0;  ///< in the plan of `from`
    double begin = 0;
    double end = 0;
  };
  std::vector<Message> messages;  ///< by `from` and `step`
};

/// The call as one to simulate, if all its ranks are there and its algorithm is in the catalogue, else empty. Streams
/// run the same plans.
std::optional<simulate::SimulatedCall> simulated_call_of(const TracedCall& call);

/// When the messages of such a call are sent and arrive according to its plan. It assumes that every message takes the
/// usual time of the messages of `calls`, all of one algorithm, and that no rank is late. Nothing if the plan is
/// unknown, if there are no messages, or if its ranks used each other's buffers.
std::optional<Prediction> predict(const TracedCall& call, const std::vector<const TracedCall*>& calls);

}  // namespace tutti::cli
