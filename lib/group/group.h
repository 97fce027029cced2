#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/engine/engine.h"
#include "tutti/error.h"

namespace tutti::detail {

struct Context;
class GroupUser;
struct Report;
struct Status;
struct Failure;

/// The ranks of one communicator, and what they share: names, links, the first failure.
///
/// Group ranks are used everywhere above the transports; links know global ranks.
class Group final : public Failable {
 public:
  /// Where a failure was found: the rank that found it tells the others.
  enum class Origin { here, elsewhere };

  /// Made on every member with the same `id` and `members` (global ranks in group order). `parent`: the id of the group
  /// it was made from, whose failure is its own; 0: none.
  Group(std::shared_ptr<Context> context, std::uint64_t id, std::vector<int> members, std::uint64_t parent);

  /// From now on messages arrive for both, and failures from elsewhere.
  void join(GroupUser& collectives, GroupUser& messages);
  /// Says bye to the other ranks, or tells them what has failed; pending work is a failure. The users must still
  /// be there.
  void leave() noexcept;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(members_.size()); }
  std::uint64_t id() const { return id_; }
  /// 0: the world, k: the k-th sub-group that this rank has made.
  int index() const { return index_; }
  std::uint64_t parent() const { return parent_; }
  /// Its number in the trace's records, if there is a trace.
  std::uint16_t trace_index() const { return trace_index_; }
  const std::vector<int>& members() const { return members_; }
  int global_rank(int rank) const { return members_[static_cast<std::size_t>(rank)]; }
  /// -1 for a rank that is not a member.
  int group_rank(int global_rank) const { return group_rank_[static_cast<std::size_t>(global_rank)]; }
  /// `ranks` are global.
  bool has_any_of(std::span<const int> ranks) const;
  /// The ranks here on this one's host, in order.
  std::vector<int> local_ranks() const;
  /// "rank 2 (host n07, pid 12)"; see lib/base/rank_name.h for groups of other numbers than the job's.
  std::string name_of(int rank) const;

  Context& context() const { return *context_; }
  const std::shared_ptr<Context>& shared_context() const { return context_; }
  /// Those of its two users: even for collectives, odd for messages.
  transport::Channel collective_channel() const { return id_ & ~std::uint64_t{1}; }
  transport::Channel message_channel() const { return id_ | 1; }

  /// The transport that all its ranks share memory through, if they do.
  transport::Transport* shared_memory() const;
  /// The same where its collectives may go over a board.
  transport::Transport* boards() const;
  /// Opens the link to a group rank on one of this group's channels.
  transport::Link& open(int rank, transport::Channel channel);
  /// Or the one for what may come after that rank has left.
  transport::Link& open_aside(int rank, transport::Channel channel);

  /// Remembers the first failure; every pending and later operation ends with it. Owner of the engine only.
  void fail(const Error& found, Origin origin = Origin::here) noexcept;
  bool failing() const { return failure_.has_value(); }
  const std::optional<Error>& failure() const { return failure_; }
  void fail_now() noexcept override;
  /// A link broke. Where a failure detector watches, the failure is what the coordinator makes of it.
  void link_failed(const transport::Link& link, const Error& reason) noexcept;
  /// A deadline has passed, and no answer has come: `text` says what is known here, `peer` whom this rank waits for.
  void give_up(const std::string& text, int peer, std::uint64_t operation) noexcept;
  /// The user's wish.
  void abort(std::string_view reason) noexcept;
  /// What a link's failure means in this group's words.
  Error explain(const transport::Link& link, const Error& reason) const;
  /// A failure that was found elsewhere, in this group's ranks.
  Error translate(const Failure& failure) const;
  /// What the job calls a rank, by its number there: "rank 2 (host n07, pid 12)".
  std::string job_name(int global_rank) const;
  /// What the failure of the group that this one was made from means here.
  Error inherited(const Group& parent) const;
  /// What this rank waits in here; false: nothing.
  bool describe_wait(Status& status) const;
  /// What it can say about what `report` asks.
  void answer(const Report& report, Status& status) const;
  /// For fault injection: cuts all connections of this rank.
  void cut_connections() noexcept;
  /// For errors: this rank is in a call of the user's that is made of others, or of none. Null: no longer.
  void set_within(const char* call) { within_.store(call, std::memory_order_relaxed); }

 private:
  /// To open there what the log calls `what`.
  transport::Transport& transport_to(int global, transport::Channel channel, const char* what);

  std::shared_ptr<Context> context_;
  std::uint64_t id_;
  int index_;
  std::uint64_t parent_;
  std::uint16_t trace_index_ = 0;
  std::vector<int> members_;
  std::vector<int> group_rank_;
  int rank_ = -1;
  std::optional<Error> failure_;
  bool suspects_peer_ = false;  // its link broke, and the coordinator has not answered yet
  std::atomic<const char*> within_{nullptr};
  GroupUser* collectives_ = nullptr;  // null until join()
  GroupUser* messages_ = nullptr;
};

/// While it lives, errors of other ranks say that this one is in `call`.
class Within {
 public:
  Within(Group& group, const char* call) : group_(group) { group_.set_within(call); }
  ~Within() { group_.set_within(nullptr); }
  Within(const Within&) = delete;
  Within& operator=(const Within&) = delete;

 private:
  Group& group_;
};

}  // namespace tutti::detail
