#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "lib/collective/prepared_call.h"
#include "lib/observe/black_box.h"
#include "tutti/work.h"

namespace tutti::detail {

class BoardCollectives;
class CallHistory;
class Collectives;
class Group;

/// Does small calls on the board in the thread of their caller, without an operation: the trip of one cache line is
/// over before an engine has looked at its clock. A call for which the others are late goes on as an operation.
///
/// Threading: any thread. A call is done by the thread that owns the engine; who cannot have it does without.
class InlineCalls {
 public:
  InlineCalls(Collectives& collectives, Group& group, BoardCollectives& board, CallHistory& history);

  /// Whether begin() may do such a call.
  bool may_do(const Request& request) const;
  /// Does a checked call. False: nothing has happened, and it needs an operation.
  bool run(const Request& request);
  /// The same for a request that need not be checked, since it is the one before once more.
  bool run_again(const Request& request);
  /// Begins a call, and ends it if the others are soon there; else what it returns is on its way. Nothing: it needs an
  /// operation.
  std::optional<Work> begin(const PreparedCall& call, bool asynchronous);

 private:
  bool may_begin(const PreparedCall& call);
  bool run_owned(const PreparedCall& call);
  bool do_owned(const PreparedCall& call, black_box::Flight& flight);
  Work go_on(const PreparedCall& call, const black_box::Flight& flight, bool asynchronous);
  void record(const PreparedCall& call, const transport::Frame& frame) noexcept;
  const void* hint_of(const Request& request) const { return request.output.data ? request.output.data : this; }

  Collectives& collectives_;
  Group& group_;
  BoardCollectives& board_;
  CallHistory& history_;
  /// The last call: a program that makes it again from the same buffers finds it prepared. The engine's owner's, but
  /// for the hint.
  std::optional<PreparedCall> last_;
  std::uint32_t windows_ = 0;  // that it was prepared for
  std::atomic<const void*> last_output_{nullptr};
};

}  // namespace tutti::detail
