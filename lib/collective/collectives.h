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

/// The collectives of one communicator: chooses what carries a call, and knows the operations that are running.
/// LinkQueues handles the links, BoardCollectives the board, and InlineCalls small calls.
class Collectives final : public GroupUser {
 public:
  Collectives(Group& group, transport::Channel channel, Planner planner);
  ~Collectives();

  // ---- Any thread
  Planner& planner() { return planner_; }
  /// Null where not all ranks share memory.
  InlineCalls* inline_calls() { return inline_calls_ ? &*inline_calls_ : nullptr; }
  Planned plan(const Request& request);
  /// Name of the algorithm of that plan, as a user would write it.
  std::string algorithm_of(const Request& request);
  /// Prepares a checked call; `pool` is for its operations.
  void prepare(std::optional<PreparedCall>& to, const Request& request, std::shared_ptr<Pool<Operation>> pool) {
    to.emplace(request, plan(request), std::move(pool), group_, board_capacity());
  }
  /// Makes an operation of a checked call, bound to memory and ready for Engine::submit().
  Operation& make(const Request& request) { return make(request, plan(request), pool_); }
  Operation& make(const PreparedCall& call) { return make(call.request, call.planned, call.pool); }
  /// Makes an operation that stands for a call whose bytes a stream moves, by the algorithm `name`. `window`: a hash of
  /// where its buffers lie in shared memory; 0: nowhere. It may go over links, whose frames have no word for it.
  Operation& make_stand_in(const Request& request, const std::string& name, PartOffsets counts,
                           std::shared_ptr<const StreamPart> stream, std::uint32_t window = 0);
  /// What a checked call asks of the planner.
  static Planner::Wish wish_of(const Request& request, int ranks);
  const std::shared_ptr<Pool<Operation>>& pool() const { return pool_; }
  const std::shared_ptr<Windows>& windows() const { return windows_; }
  /// Whether collectives use memory of allocate().
  bool shares_memory() const { return board_ != nullptr; }
  /// Counts an inline call. Concurrent threads may lose increments: only injected faults use the number, and with
  /// faults no call runs inline.
  void count_made() noexcept { made_.store(made_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }

  // ---- Owner of the engine
  /// False: the group has failed, and the operation has ended with its failure.
  bool start(Operation& operation) noexcept;
  void start_on_board(Operation& operation) noexcept;
  void ended(Operation& operation) noexcept;
  LinkQueues& link_queues() { return link_queues_; }
  /// Number of the oldest running operation, or `next` if none is older.
  std::uint32_t oldest_running(std::uint32_t next) const noexcept;
  bool busy() const noexcept override { return !running_.empty(); }
  std::uint64_t last_number() const noexcept override { return history_.last_number(); }
  void fail_all(const Error& reason) noexcept override;
  void close() noexcept override;

  // ---- For errors
  /// Whether an operation that takes long may ask the other ranks about it now. The oldest one always may.
  bool may_ask(const Operation& operation, bool is_overdue);
  void describe_call(std::uint64_t number, Status& status) const override;
  bool describe_wait(Status& status, Which which) const override;
  /// "rank 2 (host a), rank 5 (host b)": the ranks whose messages the operation awaits, or that do not take its own.
  std::string awaited(const Operation& operation) const;
  int first_awaited(const Operation& operation) const;
  /// Fails the group if this rank still waits for a peer that has ended this call and sends nothing more for it: then
  /// their counts differ. Called now and then, with passes of all transports in between.
  void notice_who_went_on(Operation& operation) noexcept;
  /// Handles a message for which no receive is posted. If it belongs to a call that has ended here, its sender called
  /// something else.
  void notice_leftover(int peer, const transport::Frame& frame) noexcept;
  /// The error for a peer that has made another call than this rank, or sent a message of another length.
  Error mismatch(int peer, const transport::Frame& theirs, const transport::Frame& ours) const {
    return history_.mismatch(peer, theirs, ours, board_.get());
  }

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
  /// For an all_to_all_v that ends: looks for messages that no operation here expected.
  void look_for_leftovers(const Operation& exchange) noexcept;
  bool is_awaited(int peer, const Operation& operation) const;
  void describe_operation(const Operation& operation, Status& status) const;

  Group& group_;
  std::mutex planning_;  // for the planner, which several threads may call
  Planner planner_;
  std::shared_ptr<Pool<Operation>> pool_;
  std::shared_ptr<Windows> windows_ = std::make_shared<Windows>();
  CallHistory history_;
  LinkQueues link_queues_;
  std::unique_ptr<BoardCollectives> board_;  // null where not all ranks share memory
  std::optional<InlineCalls> inline_calls_;  // null where not all ranks share memory
  Roster<Operation> running_;
  AskLimit ask_limit_;
  std::atomic<std::uint64_t> made_{0};  // calls made; if one thread makes all, the number of the last
};

}  // namespace tutti::detail
