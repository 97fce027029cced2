#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/api/communicator_state.h"
#include "lib/api/own_parts.h"
#include "lib/collective/collectives.h"
#include "tutti/persistent.h"

namespace tutti::detail {

/// A checked call on device memory, with copies of all that its caller gave besides buffers.
struct DeviceRequest {
  DeviceRequest(const Request& of, OnStream stream);
  DeviceRequest(const DeviceRequest&) = delete;

  const Op op;
  const std::string algorithm;
  const std::vector<std::size_t> counts, recv_counts, displacements, recv_displacements;
  const OnStream on;
  const Request request;  // refers to those above
};

/// The state of a Persistent: a checked call with its plan, and the operation to which its last start was bound, in a
/// pool of its own.
class PersistentCall {
 public:
  /// Throws as the call itself would. Any thread.
  PersistentCall(std::shared_ptr<CommunicatorState> state, const Request& request);
  /// The same of a checked call on device memory.
  PersistentCall(std::shared_ptr<CommunicatorState> state, const Request& request, OnStream on);

  /// What has begun.
  Work start(bool asynchronous);
  /// Throws, for a call that cannot be started now.
  [[noreturn]] void refuse_start(const char* why) const;
  bool is_own_process() const;
  void require_own_process() const;

 private:
  const Request& request() const { return device_ ? device_->request : call_->request; }

  std::shared_ptr<CommunicatorState> state_;           // first: it outlives the rest
  const std::unique_ptr<const DeviceRequest> device_;  // null: the call is on host memory
  const std::shared_ptr<OwnParts> parts_;              // of a _v call on host memory
  std::optional<PreparedCall> call_;                   // none: the call is on device memory
  InlineCalls* const inline_calls_;                    // null: it always becomes an operation
  bool has_helper_ = false;
};

}  // namespace tutti::detail
