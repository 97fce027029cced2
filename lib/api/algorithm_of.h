#pragma once

#include <memory>
#include <string>

#include "lib/api/communicator_state.h"
#include "tutti/request.h"

namespace tutti::detail {

/// The algorithm by which this checked call would run, by the name that CallOptions::algorithm takes. In contrast to
/// Communicator::chosen_algorithm() it knows the call's buffers, which may lie in allocated memory or on a GPU, and its
/// counts. Whether calls on a GPU run on streams is decided by the first one; until then they count as the host's.
std::string algorithm_of(const std::shared_ptr<CommunicatorState>& state, const Request& request, Memory memory);

}  // namespace tutti::detail
