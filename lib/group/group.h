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

/// The ranks of one communicator, with their names, their links, and the first failure.
///
/// Code above the transports uses ranks of the group; links know global ranks.
class Group final : public Failable {
 public:
  /// Whether a failure was found here or elsewhere. The rank that finds one tells the others.
  enum class Origin { here, elsewhere };

  /// Every member makes the group with the same `id` and `members` (global ranks, in the order of the group). `parent`:
  /// the id of the group from which it was made, and with which it fails; 0: none.
  Group(std::shared_ptr<Context> context, std::uint64_t id, std::vector<int> members, std::uint64_t parent);

  /// From now on both users get their messages, and the group hears of failures elsewhere. If it throws, neither is so.
  void join(GroupUser& collectives, GroupUser& messages);
  /// Says bye to the other ranks, or tells them what has failed. Pending work counts as a failure. The users must still
  /// exist.
  void leave() noexcept;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(members_.size()); }
  std::uint64_t id() const { return id_; }
  /// 0: the world; k: the k-th sub-group that this rank has made.
  int index() const { return index_; }
  std::uint64_t parent() const { return parent_; }
  /// Its number in the records of the trace, if there is one.
  std::uint16_t trace_index() const { return trace_index_; }
  const std::vector<int>& members() const { return members_; }
  int global_rank(int rank) const { return members_[static_cast<std::size_t>(rank)]; }
  /// -1 if the rank is not a member.
  int group_rank(int global_rank) const { return group_rank_[static_cast<std::size_t>(global_rank)]; }
  /// Whether one of these global ranks is a member.
  bool has_any_of(std::span<const int> ranks) const;
  /// The members on this rank's host, in order.
  std::vector<int> local_ranks() const;
  /// tutti::ranks_on_each_host() of its members.
  int ranks_on_each_host() const;
  /// "rank 2 (host n07, pid 12)". See lib/base/rank_name.h for groups whose ranks differ from those of the job.
  std::string name_of(int rank) const;

  Context& context() const { return *context_; }
  const std::shared_ptr<Context>& shared_context() const { return context_; }
  /// The channels of its two users: an even number for collectives, an odd one for messages.
  transport::Channel collective_channel() const { return id_ & ~std::uint64_t{1}; }
  transport::Channel message_channel() const { return id_ | 1; }

  /// The transport through which all members share memory, if they do.
  transport::Transport* shared_memory() const;
  /// The members that share memory with this one, itself among them, in order; and the transport through which they do,
  /// null if there is no other.
  struct OfHost {
    std::vector<int> members;  // ranks of the group
    transport::Transport* transport = nullptr;
  };
  OfHost shared_memory_of_host() const;
  /// The transport through which all members share memory, if collectives may use a board.
  transport::Transport* boards() const;
  /// Opens the link to a member on one of this group's channels.
  transport::Link& open(int rank, transport::Channel channel);
  /// Opens a link for frames that may arrive after that rank has left.
  transport::Link& open_aside(int rank, transport::Channel channel);
  /// Adds a member to those for which the call that `status` describes waits.
  void add_awaited(int rank, transport::Channel channel, Status& status) const;

  /// Records the first failure, with which every pending and later operation ends. Owner of the engine only.
  void fail(const Error& found, Origin origin = Origin::here) noexcept;
  bool failing() const { return failure_.has_value(); }
  /// It fails, or will soon: see suspect().
  bool is_in_doubt() const { return failing() || suspects_peer_; }
  const std::optional<Error>& failure() const { return failure_; }
  void fail_now() noexcept override;
  /// Handles a broken link. If there is a failure detector, the coordinator decides what has failed.
  void link_failed(const transport::Link& link, const Error& reason) noexcept;
  /// Fails soon. The ranks that find something wrong between two of them may each take another one for the culprit, so
  /// the coordinator hears them all and names the one that most of them do.
  void suspect(const Error& reason) noexcept;
  /// Fails because a deadline has passed and no answer has come. `text`: what is known here; `peer`: the rank for which
  /// this one waits.
  void give_up(const std::string& text, int peer, std::uint64_t operation) noexcept;
  /// Fails because the user says so, on any thread, and returns within a second. If the owner of the engine is in a
  /// user's function for longer, the other ranks hear of it nevertheless, and this one does when that returns.
  void abort(std::string_view reason) noexcept;
  /// The failure of a link in terms of this group.
  Error explain(const transport::Link& link, const Error& reason) const;
  /// A failure that was found elsewhere, with ranks of this group.
  Error translate(const Failure& failure) const;
  /// The name of a rank in the job: "rank 2 (host n07, pid 12)".
  std::string job_name(int global_rank) const;
  /// The failure of the group from which this one was made, in terms of this one.
  Error inherited(const Group& parent) const;
  /// Describes the call of this group in which this rank waits. False: there is none.
  bool describe_wait(Status& status) const;
  /// Answers what `report` asks.
  void answer(const Report& report, Status& status) const;
  /// Cuts all connections of this rank, for fault injection.
  void cut_connections() noexcept;
  /// For errors: the user has called `call`, which consists of other calls or of none. Null: it has returned.
  void set_within(const char* call) { within_.store(call, std::memory_order_relaxed); }
  const char* within() const { return within_.load(std::memory_order_relaxed); }

 private:
  /// The transport to a rank, on which the caller opens `what` (a word for the log).
  transport::Transport& transport_to(int global, transport::Channel channel, const char* what);
  void detach() noexcept;

  std::shared_ptr<Context> context_;
  std::uint64_t id_;
  int index_;
  std::uint64_t parent_;
  std::uint16_t trace_index_ = 0;
  std::vector<int> members_;
  std::vector<int> group_rank_;
  int rank_ = -1;
  std::optional<Error> failure_;
  bool suspects_peer_ = false;  // and the coordinator has not decided yet
  std::atomic<const char*> within_{nullptr};
  GroupUser* collectives_ = nullptr;  // null until join()
  GroupUser* messages_ = nullptr;
};

/// "split(), in its all_gather ..." if `whole` is what has made the call: "split()"; else, if it is null, `call`
/// itself.
std::string part_of(const char* whole, std::string call);

/// While it exists, collectives on the communicator are parts of `call`, which this thread has made, and errors say so,
/// also those of other ranks. Messages are not: another thread sends or receives them.
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
