#pragma once

#include <memory>
#include <optional>

#include "lib/api/runners.h"
#include "lib/api/stream_calls.h"
#include "tutti/communicator.h"

namespace tutti::detail {

/// Makes the links between the GPUs of a communicator's ranks, and tries them. All ranks call it at the same place: in
/// their first call on device memory, which is in `stream`. Null, on all ranks: such calls are staged, for a reason
/// that the log gives. Nothing, on all ranks: a later call has to decide, since a rank that has no memory in this one
/// does not say which GPU is its own.
std::optional<std::unique_ptr<StreamCalls>> set_up_streams(Communicator& comm, CommunicatorState& state,
                                                           const DeviceStream& stream);

}  // namespace tutti::detail
