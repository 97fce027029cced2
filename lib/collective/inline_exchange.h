#pragma once

#include <cstddef>

#include "lib/collective/bound_call.h"
#include "lib/collective/operation.h"
#include "transport/frame.h"

namespace tutti::detail {

class Group;
class LinkQueues;

/// Runs a plan of one exchange (algorithms/exchange.h) over links, in the thread of its caller: a message is on its way
/// before an engine has looked at its clock. If the peer is late, the call goes on as an operation.
///
/// Threading: the owner of the engine.
class InlineExchange {
 public:
  InlineExchange(Group& group, LinkQueues& queues) : group_(group), queues_(queues) {}

  /// Whether such calls are one exchange of their buffers as they are, and short enough.
  static bool suits(const Request& request, const Prepared& prepared) noexcept;
  /// Whether a call that suits may run so on this communicator.
  bool is_allowed(const algorithms::Exchange& exchange) const noexcept;
  /// Nothing else is under way on the links of the call.
  bool may_begin(const BoundCall& call) const noexcept;
  /// True: all is done. `frame`: of the call, with its number and history.
  bool run(BoundCall& call, transport::Frame frame, ExchangeProgress& progress) noexcept;
  /// Bytes sent and received by the last call.
  std::size_t moved() const noexcept { return moved_; }

 private:
  void send(BoundCall& call, transport::Frame frame, ExchangeProgress& progress) noexcept;
  void receive(BoundCall& call, transport::Frame frame, ExchangeProgress& progress) noexcept;
  void await_return(const BoundCall& call, ExchangeProgress& progress) noexcept;

  Group& group_;
  LinkQueues& queues_;
  std::size_t moved_ = 0;
};

}  // namespace tutti::detail
