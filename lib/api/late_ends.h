#pragma once

namespace tutti::detail {

class CommunicatorState;

/// Ends a communicator whose last owner lets go of it on the thread that owns its engine: in a function given to
/// then(), or in an op. To close it there would wait for that function to return. So a thread of its own does it soon,
/// and the process does not end before. Threading: any.
void end_later(CommunicatorState* state) noexcept;

}  // namespace tutti::detail
