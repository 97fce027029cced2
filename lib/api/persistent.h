#pragma once

#include <memory>
#include <string>

#include "lib/api/communicator_state.h"
#include "lib/api/device_calls.h"
#include "lib/api/own_parts.h"
#include "lib/collective/collectives.h"
#include "tutti/persistent.h"

namespace tutti::detail {

/// The state of a Persistent: a checked call with its plan, and the operation to which its last start was bound, in a
/// pool of its own.
class PersistentCall {
 public:
  /// Throws as the call itself would. Any thread.
  PersistentCall(std::shared_ptr<CommunicatorState> state, const Request& request);
  /// The same of a checked call on device memory.
  PersistentCall(std::shared_ptr<CommunicatorState> state, std::unique_ptr<DeviceCopies> copies);

  /// What has begun.
  Work start(bool asynchronous);
  /// Throws, for a call that cannot be started now.
  [[noreturn]] void refuse_start(const char* why) const;
  bool is_own_process() const;
  void require_own_process() const;

 private:
  Work start_on_device();

  std::shared_ptr<CommunicatorState> state_;    // first: it outlives the rest
  const std::unique_ptr<DeviceCopies> copies_;  // of a call on device memory
  const std::shared_ptr<OwnParts> parts_;       // of a _v call
  PreparedCall call_;
  InlineCalls* const inline_calls_;  // null: it always becomes an operation
  bool has_helper_ = false;
};

}  // namespace tutti::detail
