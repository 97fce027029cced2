#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cli/simulate/task.h"
#include "cli/trace/read.h"

namespace tutti::cli {

/// A call by its plan, in nanoseconds from its begin.
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

/// The plan of a call and what it is about; of an algorithm of the catalogue, else empty.
std::optional<simulate::Task> task_of(const TracedCall& call);

/// When such a call's messages go and arrive by its plan if every message takes what the messages of `calls`, all of
/// one algorithm, usually take once their sender gives them away, and nobody is late. Nothing: the plan is not known,
/// or no message is.
std::optional<Prediction> predict(const TracedCall& call, const std::vector<const TracedCall*>& calls);

}  // namespace tutti::cli
