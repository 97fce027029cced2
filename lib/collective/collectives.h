#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "lib/collective/operation.h"
#include "lib/collective/planner.h"
#include "lib/engine/engine.h"
#include "lib/engine/fifo.h"
#include "lib/engine/pool.h"
#include "lib/engine/roster.h"
#include "lib/engine/wait_escalation.h"
#include "lib/failure/recent_counts.h"
#include "lib/group/checksum.h"
#include "lib/group/group_user.h"

namespace tutti::detail {

class BoardCollectives;
class Group;
struct Status;

/// The collectives of one communicator on their way: which operation may use which link when, and which arriving
/// message belongs to which step.
///
/// On each link frames leave in the order of operations, and within one in the order of its plan. So the next message
/// on a link always belongs to the first receive posted there: no tags, no unexpected data. A message for which
/// nothing is posted yet stays in its link.
class Collectives final : public GroupUser {
 public:
  Collectives(Group& group, transport::Channel channel, Planner planner);
  ~Collectives();

  Planner& planner() { return planner_; }
  /// A checked call, bound to memory, ready for Engine::submit(). Any thread.
  Operation& make(const Request& request);
  /// Does a tiny checked call at once, without an operation. False: nothing has happened, make() one.
  bool run_at_once(const Request& request);
  /// The same for a request that need not be checked, since it is the one before once more.
  bool run_again(const Request& request);

  /// What every start of a call needs, whoever made it ready.
  struct Ready {
    const Request& request;
    Planned planned;
    std::shared_ptr<Pool<Operation>> pool;
    // If it goes over a board:
    BoardCall board;
    transport::FrameWords frame;  // but for its number
    black_box::Form record;
    bool is_short = false;  // so that its end is as good as its beginning on a coarse clock, unless it waits
  };
  Ready make_ready(const Request& request, const Planned& planned, std::shared_ptr<Pool<Operation>> pool) const;
  Planned plan(const Request& request);
  Operation& make(const Ready& ready) { return make(ready.request, ready.planned, ready.pool); }
  /// Whether begin_at_once() may do it.
  bool may_be_at_once(const Request& request) const;
  /// Begins a tiny call, and ends it if the others are soon there; else what it returns is on its way. Nothing: it must
  /// be made.
  std::optional<Work> begin_at_once(const Ready& ready, bool asynchronous);
  /// Of the last operation that has begun; for error messages.
  std::uint64_t last_number() const noexcept override { return started_; }

  // ---- Owner of the engine ----
  /// False: it has ended, with the failure of the group.
  bool start(Operation& operation) noexcept;
  void start_on_board(Operation& operation) noexcept;
  /// The link is next to carry this lane's messages: they may be issued, in order.
  void lane_done(Operation& operation, std::uint32_t lane) noexcept;
  bool send(Operation& operation, std::uint32_t step, int peer, std::span<const std::byte> bytes) noexcept;
  void post(Operation& operation, std::uint32_t step, int peer, std::span<std::byte> bytes) noexcept;
  void ended(Operation& operation) noexcept;
  /// Any thread.
  const std::shared_ptr<Windows>& windows() const { return windows_; }
  /// Whether memory of allocate() is worth anything.
  bool shares_memory() const { return board_ != nullptr; }
  /// The number of the oldest operation that runs, or else `next`.
  std::uint32_t oldest_running(std::uint32_t next) const noexcept;
  bool busy() const noexcept override { return !running_.empty(); }
  /// An operation takes long: whether it may ask the others about it now. The one before which none runs always may.
  bool may_ask(const Operation& operation, bool is_overdue);
  void fail_all(const Error& reason) noexcept override;
  void close() noexcept override;
  void describe_call(std::uint64_t number, Status& status) const override;
  bool describe_wait(Status& status, Which which) const override;
  /// "rank 2 (host a), rank 5 (host b)": those whose messages the operation waits for, or who do not take its own.
  std::string awaited(const Operation& operation) const;
  int first_awaited(const Operation& operation) const;
  /// Called now and then, with passes of all transports in between: a rank for which this call has ended sends nothing
  /// more for it, so who still waits for it has been told other counts. Fails the group.
  void notice_who_went_on(Operation& operation) noexcept;
  /// `peer` has made another call than this rank, or its message has another length.
  Error mismatch(int peer, transport::Frame theirs, transport::Frame ours) const;
  /// The elements of a call as its caller counts them; of an all_to_all_v what this rank sends.
  std::uint64_t elements(const Operation& operation) const;

 private:
  struct Turn {
    Operation* operation = nullptr;
    std::uint32_t lane = 0;
  };
  struct Posted {
    Operation* operation = nullptr;
    std::uint32_t step = 0;
    std::span<std::byte> bytes;
    std::size_t seen = 0;
    Arriving arriving{};
  };
  struct OutLane {
    transport::Link* link = nullptr;
    Fifo<Turn> turns;
    int unsent = 0;              // messages that the link has not taken yet
    std::uint64_t messages = 0;  // ever
  };
  struct InLane {
    transport::Link* link = nullptr;
    Fifo<Turn> turns;
    Fifo<Posted> posted;
    std::uint64_t messages = 0;  // ever
  };

  bool knows(int rank) const noexcept override;
  transport::Acceptance arrived(transport::Link& from, const transport::Frame& frame) noexcept override;
  void view(transport::Link& from, std::span<const std::byte> piece) noexcept override;
  void received(transport::Link& from) noexcept override;
  void sent(transport::Link& to, transport::Token token) noexcept override;
  void failed(transport::Link& link, const Error& reason) noexcept override;
  std::optional<Planned> plan_in_window(const Request& request, Planner::Wish wish);
  Operation& make(const Request& request, const Planned& planned, const std::shared_ptr<Pool<Operation>>& pool);
  bool may_begin_owned(const Ready& ready);
  bool do_owned(const Ready& ready, black_box::Flight& flight);
  bool run_owned(const Ready& ready);
  Work go_on(const Ready& ready, const black_box::Flight& flight, bool asynchronous);
  const void* hint_of(const Request& request) const { return request.output.data ? request.output.data : this; }
  /// The call numbered `started_` begins. Returns it with its number, as it is remembered.
  const transport::FrameWords& note_call(const transport::FrameWords& call, const Prepared& prepared, bool in_window);
  void record_at_once(const Ready& ready, const transport::Frame& frame) noexcept;
  Fifo<Turn>& turns(const algorithms::Lane& lane);
  InLane& in_lane(const transport::Link& link);
  std::uint64_t full_number(std::uint32_t operation) const;
  void note_counts(const Operation& operation);
  /// A message for which nothing is posted: that of a call which has ended here comes from a rank that called something
  /// else.
  void notice_leftover(int peer, const transport::Frame& frame) noexcept;
  /// Of an exchange that ends: messages that nobody here expected may be there already.
  void look_for_leftovers(const Operation& exchange) noexcept;
  /// "ring:2", of a call of this rank.
  std::string name_of(const transport::Frame& ours) const;
  /// What differs in two calls of which the same is said.
  std::string difference(const transport::Frame& theirs, const transport::Frame& ours) const;
  /// `peer` sent so many elements in `ours`, an all_to_all_v; empty: that is what this rank expects.
  std::string counts_that_differ(int peer, const transport::Frame& ours, std::uint64_t sent) const;
  bool is_awaited(std::size_t peer, const Operation& operation) const;
  void tell(const Operation& operation, Status& status) const;

  Group& group_;
  transport::Channel channel_;
  bool checksum_;
  trace::Recorder* const recorder_;  // null: nobody wants a trace
  std::mutex planning_;              // several threads may call
  Planner planner_;
  std::shared_ptr<Pool<Operation>> pool_;
  std::shared_ptr<Windows> windows_ = std::make_shared<Windows>();
  /// The last call that run_at_once() did: who makes it again from the same buffers finds it planned. The engine's
  /// owner's, but for the hint.
  struct Last {
    Last(const Ready& made, std::uint32_t changes_of_windows);
    Last(const Last&) = delete;
    bool is(const Request& other, std::uint32_t changes_of_windows) const noexcept;

    Op op;
    Request request;
    std::uint32_t windows;
    Ready ready;
  };
  std::optional<Last> last_;
  std::atomic<const void*> last_output_{nullptr};
  std::unique_ptr<BoardCollectives> board_;  // null where not all ranks share memory
  std::vector<OutLane> out_;
  std::vector<InLane> in_;
  Roster<Operation> running_;
  AskLimit ask_limit_;
  std::atomic<std::uint64_t> made_{0};  // if all calls came from one thread, the last one's number

  /// Calls that have begun, so that a rank that is ahead can still say what it called.
  struct Recent {
    std::uint64_t number = 0;
    transport::FrameWords frame{};
    const Prepared* prepared = nullptr;
    bool in_window = false;
  };
  static constexpr std::size_t remembered = 64;
  std::array<Recent, remembered> recent_;
  RecentCounts counts_;
  std::uint64_t started_ = 0;
  std::uint64_t finished_ = 0;
  std::uint64_t history_ = 0;  // a number for all calls that have begun
};

}  // namespace tutti::detail
