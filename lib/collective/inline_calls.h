#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "lib/collective/inline_exchange.h"
#include "lib/collective/prepared_call.h"
#include "lib/observe/black_box.h"
#include "tutti/work.h"

namespace tutti::detail {

class BoardCollectives;
class CallHistory;
class Collectives;
class Group;
class LinkQueues;

/// Runs calls inline, in the thread of their caller and without an operation: small ones on the board, where the trip
/// of one cache line is over before an engine has looked at its clock, and others that are one exchange of messages. If
/// the other ranks are late, the call goes on as an operation.
///
/// Threading: any thread. The caller must own the engine meanwhile; if it cannot get it, the call becomes an operation.
class InlineCalls {
 public:
  InlineCalls(Collectives& collectives, Group& group, BoardCollectives& board, LinkQueues& queues,
              CallHistory& history);

  /// Whether such a call may run inline.
  bool may_do(const Request& request) const;
  /// Does a checked call. False: nothing has happened, and the call needs an operation.
  bool run(const Request& request);
  /// The same for a request that is equal to the one before, and so need not be checked again.
  bool run_again(const Request& request);
  /// Begins a call, and completes it if the others come soon; otherwise the Work is still running. Nothing: the call
  /// needs an operation.
  std::optional<Work> begin(const PreparedCall& call, bool asynchronous);

 private:
  inline bool may_begin(const PreparedCall& call);
  inline bool run_owned(const PreparedCall& call);
  inline bool do_owned(const PreparedCall& call, Begun& begun);
  inline bool do_on_board(const PreparedCall& call, Begun& begun);
  bool do_over_links(const PreparedCall& call, Begun& begun);
  inline std::int64_t note_begin(const PreparedCall& call, Begun& begun) noexcept;
  Work go_on(const PreparedCall& call, const Begun& begun, bool asynchronous);
  void record(const PreparedCall& call, const transport::Frame& frame) noexcept;
  const void* hint_of(const Request& request) const { return request.output.data ? request.output.data : this; }

  Collectives& collectives_;
  Group& group_;
  BoardCollectives& board_;
  InlineExchange links_;
  CallHistory& history_;
  /// The last call, which is already prepared for a program that repeats it with the same buffers. Only the owner of
  /// the engine uses these members, except `last_output_`, a hint that any thread may read.
  std::optional<PreparedCall> last_;
  std::uint32_t windows_ = 0;  // changes() of the windows for which it was prepared
  std::atomic<const void*> last_output_{nullptr};
};

}  // namespace tutti::detail
