#include "lib/api/algorithm_of.h"

#include <optional>

#include "lib/api/stream_calls.h"

namespace tutti::detail {

std::string algorithm_of(const std::shared_ptr<CommunicatorState>& state, const Request& request, Memory memory) {
  if (memory == Memory::device)
    if (StreamCalls* const streams = state->streams_if_any())
      if (const std::optional<StreamCalls::Planned> planned = streams->plan(request)) return planned->prepared->name;
  return state->collectives.algorithm_of(request);
}

}  // namespace tutti::detail
