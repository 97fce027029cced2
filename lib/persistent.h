#pragma once

#include <memory>
#include <string>

#include "lib/collectives.h"
#include "lib/communicator_state.h"
#include "tutti/persistent.h"

namespace tutti::detail {

/// What a Persistent points to: a checked call with its plan, and the operation that it was bound to when it was last
/// started, in a pool of its own.
class PersistentCall {
 public:
  /// Throws as the call itself would. Any thread.
  PersistentCall(std::shared_ptr<CommunicatorState> state, const Request& request);

  void start(bool asynchronous);
  void wait();
  bool done() const { return !started_ || work_.done(); }
  bool is_own_process() const;

 private:
  std::shared_ptr<CommunicatorState> state_;  // first: it outlives the rest
  const std::string algorithm_;
  const Op op_;
  const Request request_;
  const Collectives::Ready ready_;
  const bool at_once_;
  bool has_helper_ = false;
  bool started_ = false;
  Work work_;
};

}  // namespace tutti::detail
