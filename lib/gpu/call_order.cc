#include "lib/gpu/call_order.h"

namespace tutti::detail {

/// A context that has ended has waited for all that was in its streams.
void CallOrder::come_after_latest(cuda::Commands& to, const DeviceStream& stream) const {
  if (event_ && stream_ != stream.id() && context_.exists()) to.wait(event_);
}

void CallOrder::note(cuda::Commands& to, const DeviceStream& stream) {
  context_ = stream.known_context();
  stream_ = stream.id();
  event_ = passed(context_).get();
  to.record(event_);
}

}  // namespace tutti::detail
