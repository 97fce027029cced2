#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "lib/collective/call_history.h"
#include "lib/collective/inline_calls.h"
#include "lib/collective/link_queues.h"
#include "lib/collective/operation.h"
#include "lib/collective/planner.h"
#include "lib/collective/prepared_call.h"
#include "lib/engine/engine.h"
#include "lib/engine/pool.h"
#include "lib/engine/roster.h"
#include "lib/engine/wait_escalation.h"
#include "lib/group/group_user.h"

namespace tutti::detail {

class BoardCollectives;
class Group;
struct Status;

/// The collectives of one communicator: what carries a call, and the operations on their way. Links are in the hands of
/// LinkQueues, the board in those of BoardCollectives, and small calls in those of InlineCalls.
class Collectives final : public GroupUser {
 public:
  Collectives(Group& group, transport::Channel channel, Planner planner);
  ~Collectives();

  // ---- Any thread
  Planner& planner() { return planner_; }
  /// Null where not all ranks share memory.
  InlineCalls* inline_calls() { return inline_calls_ ? &*inline_calls_ : nullptr; }
  Planned plan(const Request& request);
  /// A checked call made ready, with `pool` for its operations.
  PreparedCall prepare(const Request& request, std::shared_ptr<Pool<Operation>> pool) {
    return {request, plan(request), std::move(pool), group_, board_capacity()};
  }
  /// A checked call, bound to memory, ready for Engine::submit().
  Operation& make(const Request& request) { return make(request, plan(request), pool_); }
  Operation& make(const PreparedCall& call) { return make(call.request, call.planned, call.pool); }
  const std::shared_ptr<Pool<Operation>>& pool() const { return pool_; }
  const std::shared_ptr<Windows>& windows() const { return windows_; }
  /// Whether memory of allocate() is worth anything.
  bool shares_memory() const { return board_ != nullptr; }
  /// A call was done without an operation. Threads may lose some: only injected faults need the number, and with those
  /// every call is an operation.
  void count_made() noexcept { made_.store(made_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }

  // ---- Owner of the engine
  /// False: it has ended, with the failure of the group.
  bool start(Operation& operation) noexcept;
  void start_on_board(Operation& operation) noexcept;
  void ended(Operation& operation) noexcept;
  LinkQueues& link_queues() { return link_queues_; }
  /// The number of the oldest operation that runs, or else `next`.
  std::uint32_t oldest_running(std::uint32_t next) const noexcept;
  bool busy() const noexcept override { return !running_.empty(); }
  std::uint64_t last_number() const noexcept override { return history_.last_number(); }
  void fail_all(const Error& reason) noexcept override;
  void close() noexcept override;

  // ---- What errors say
  /// An operation takes long: whether it may ask the others about it now. The one before which none runs always may.
  bool may_ask(const Operation& operation, bool is_overdue);
  void describe_call(std::uint64_t number, Status& status) const override;
  bool describe_wait(Status& status, Which which) const override;
  /// "rank 2 (host a), rank 5 (host b)": those whose messages the operation waits for, or who do not take its own.
  std::string awaited(const Operation& operation) const;
  int first_awaited(const Operation& operation) const;
  /// Called now and then, with passes of all transports in between: a rank for which this call has ended sends nothing
  /// more for it, so if this rank still waits for it, their counts differ. Fails the group.
  void notice_who_went_on(Operation& operation) noexcept;
  /// A message has come for which nothing is posted. That of a call which has ended here comes from a rank that called
  /// something else.
  void notice_leftover(int peer, const transport::Frame& frame) noexcept;
  /// `peer` has made another call than this rank, or its message has another length.
  Error mismatch(int peer, const transport::Frame& theirs, const transport::Frame& ours) const {
    return history_.mismatch(peer, theirs, ours, board_.get());
  }
  /// The elements of a call as its caller counts them; of an all_to_all_v what this rank sends.
  std::uint64_t elements(const Operation& operation) const;

 private:
  bool knows(int rank) const noexcept override;
  transport::Acceptance arrived(transport::Link& from, const transport::Frame& frame) noexcept override {
    return link_queues_.arrived(from, frame);
  }
  void view(transport::Link& from, std::span<const std::byte> piece) noexcept override {
    link_queues_.view(from, piece);
  }
  void received(transport::Link& from) noexcept override { link_queues_.received(from); }
  void sent(transport::Link& to, transport::Token token) noexcept override;
  void failed(transport::Link& link, const Error& reason) noexcept override;
  std::optional<Planned> plan_in_window(const Request& request, Planner::Wish wish);
  Operation& make(const Request& request, const Planned& planned, const std::shared_ptr<Pool<Operation>>& pool);
  std::size_t board_capacity() const;
  /// Of an exchange that ends: messages that no operation here expected may be there already.
  void look_for_leftovers(const Operation& exchange) noexcept;
  bool is_awaited(int peer, const Operation& operation) const;
  void describe_operation(const Operation& operation, Status& status) const;

  Group& group_;
  std::mutex planning_;  // several threads may call
  Planner planner_;
  std::shared_ptr<Pool<Operation>> pool_;
  std::shared_ptr<Windows> windows_ = std::make_shared<Windows>();
  CallHistory history_;
  LinkQueues link_queues_;
  std::unique_ptr<BoardCollectives> board_;  // null where not all ranks share memory
  std::optional<InlineCalls> inline_calls_;  // the same
  Roster<Operation> running_;
  AskLimit ask_limit_;
  std::atomic<std::uint64_t> made_{0};  // if all calls came from one thread, the last one's number
};

}  // namespace tutti::detail
