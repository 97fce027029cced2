#include "lib/board/board_collectives.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

#include "lib/base/collective_traits.h"
#include "lib/base/pause.h"
#include "lib/collective/collectives.h"
#include "lib/compute/float_environment.h"
#include "lib/engine/short_wait.h"
#include "lib/group/context.h"
#include "lib/group/group.h"

namespace tutti::detail {
namespace {

/// After that many rounds other operations get their turn.
constexpr int rounds_per_pass = 16;
/// Ranks that exchange posts write them at about the same time. One that looks for the other's post at once takes its
/// cache line away from the core that is about to write it, which then has to get it back (all_reduce of 4 B by two
/// far cores of a Xeon: 0.30 to 0.43 us, and 0.24 if both wait a moment).
constexpr int pauses_before_looking = 5;
/// The longest next post whose lines a rank fetches while it waits. They push the latest post from the nearest cache of
/// this core to the next one, from where other cores get it faster (all_reduce of 16 KiB by two cores of a Xeon: 2.50
/// us if only 2 KiB are fetched, 2.02 with 16). Longer ones take more time than they save.
constexpr std::size_t most_fetched_while_waiting = 16 * 1024;
/// The same where ranks share cores: the lines that can be in flight at once, without keeping others from the core.
constexpr std::size_t most_fetched_on_shared_core = 2 * 1024;
/// A rank that does not wait fetches more than that only while the others keep up, since it would slow down their
/// reading.
constexpr std::size_t most_fetched_ahead = 8 * 1024;
/// A rank that waits looks that many times before its looks have pauses in between, for about 0.3 us.
constexpr int looks_without_pause = 64;
/// Where ranks share cores, one that waits gives up its core, unless all that are missing run on other cores. If all
/// ranks of the host wait for each other, nobody on this core can go on either, and it first looks that many times, for
/// about half as long as a switch takes. So cores fall into step (4 ranks on 2 cores of an EPYC, barrier: each
/// switches 1.55 times per call, which takes 3.3 us, if it is given up at once, and 1.03 times, 2.5 us, so).
constexpr int looks_on_shared_core = 30;
/// Bytes of its own part that a rank copies at most before it wakes those that sleep.
constexpr std::size_t longest_before_waking = 4 * 1024;
/// Where ranks share cores, a sleeping rank that is woken too early finds that others have not come, and sleeps again.
constexpr int tries_before_waking = 32;

/// Each byte of a scatter or gather has one reader, and the root is at one end of all of them. Posting it saves
/// nothing, and once the data exceed the nearest caches links are faster, since a rank that has been served goes on,
/// and no rank waits until all have read the previous posts. In an all_to_all, where all wait for all, both take the
/// same time. Links may also use single copy for long messages, and measure whether that is faster (2 ranks, gather of
/// 128 KiB on a Xeon: 11.7 us by a board, 6.6 by single copy).
constexpr std::size_t most_scattered = 256 * 1024;
/// Bytes of a part up to which a board is faster where ranks share cores (8 ranks on 2 cores, gather of 512 KiB: 24.8
/// us by links, 18.3 by a board; scatter of 512 KiB 28.5 and 24.5, of 2 MiB 91 and 96).
constexpr std::size_t most_of_part_on_shared_cores = 128 * 1024;
/// Shorter sums do not keep all ranks of a row at work.
constexpr std::size_t least_in_row = 64 * 1024;
constexpr std::size_t least_lent = 64 * 1024;

std::size_t most_fetched(bool on_shared_core, bool while_waiting) {
  if (on_shared_core) return most_fetched_on_shared_core;
  return while_waiting ? most_fetched_while_waiting : most_fetched_ahead;
}

/// This rank reads posts of others, and others read its own.
bool is_exchange(const BoardCall& call, int round) { return call.flow(round) == transport::Flow::exchange; }

/// Ranks share cores, and all of this host wait for each other in that round, so nobody uses a core better.
bool all_of_host_wait(const BoardCall& call, int round, const Context& context) {
  return context.oversubscribed && is_exchange(call, round) &&
         std::cmp_equal(call.awaited(round).size() + 1, context.local_size);
}

/// How often a rank on a shared core looks before it gives the core up, if `missing` have not come yet.
int looks_before_yielding(const transport::Board& board, std::span<const int> missing, const Context& context) {
  return context.engine->has_asynchronous_work() || board.awaits_own_core(missing) ? 0 : looks_on_shared_core;
}

/// Its input comes late, as that of a stream does. It wakes this rank, since the engine is told by a task.
bool awaits_input(const BoardCollectives::Entry& entry) { return entry.operation && entry.operation->awaits_input(); }

/// True for scatter and gather.
bool has_one_reader_of_each_part(Collective collective) {
  const CollectiveTraits& traits = traits_of(collective);
  return traits.is_rooted() && traits.has_parts();
}

}  // namespace

BoardCollectives::BoardCollectives(Collectives& collectives, Group& group, transport::Transport& transport,
                                   transport::Channel channel, std::size_t limit)
    : collectives_(collectives),
      group_(group),
      transport_(transport),
      channel_(channel),
      limit_(limit),
      capacity_(transport::Board::capacity(group.size())),
      path_(group.context().copy_policy),
      trace_(group) {}

bool BoardCollectives::serves(const Prepared& prepared, Collective collective, std::size_t bytes,
                              std::size_t contribution) const {
  const auto ranks = static_cast<std::size_t>(group_.size());
  const std::size_t most = group_.context().oversubscribed ? most_of_part_on_shared_cores * ranks
                                                           : std::min(most_scattered, least_lent * ranks - 1);
  if (has_one_reader_of_each_part(collective) && bytes > most) return false;
  if (prepared.row) return contribution <= limit_ && bytes >= least_in_row && RowCall::can_count_rounds_of(bytes);
  if (!prepared.board || !BoardCall::fits(*prepared.board, capacity_, bytes)) return false;
  const algorithms::BoardProgram& board = *prepared.board;
  const bool gains_at_any_size =
      board.is_simple() || (group_.context().oversubscribed && board.rank_order && !board.by_domains);
  return contribution <= limit_ && (gains_at_any_size || bytes <= most_not_simple);
}

void BoardCollectives::start(const Entry& entry) noexcept {
  const bool is_next = queue_.empty();
  if (entry.operation->has_begun()) {
    begun_ = true;
    entry.operation->count_sent(posted_);
    entry.operation->count_received(read_);
    entry.operation->advance(round_);
    trace_.taken_over(round_of(entry));
  }
  queue_.push(entry);
  if (is_next) progress();
  if (!queue_.empty()) group_.context().engine->poll(*this);
}

void BoardCollectives::clear() noexcept {
  queue_.clear();
  begun_ = stuck_ = false;
  round_ = 0;
  board_ = nullptr;
  group_.context().engine->forget(*this);
}

// ---- One call at a time; inlined where a tiny one passes, for the reason in lib/collective/inline_calls.cc --------

void BoardCollectives::begin_inline(const Entry& entry) noexcept {
  has_yielded_ = false;
  posted_ = read_ = 0;
  trace_.round_begins();
  contribution_ = entry.call->contribution().data();
  post(entry);
}

bool BoardCollectives::end_inline(const Entry& entry) noexcept {
  bool waits = get_ready_to_wait(*entry.call);
  std::optional<compute::FloatEnvironment> environment;
  if (entry.call->computes()) environment.emplace();  // now, while the others' posts are on their way
  while (all_are_here(entry) || wait_for_all(entry)) {
    trace_.others_are_here();
    wake_sleepers();
    read_ += entry.call->take(*board_, round_);
    trace_.taken([&] { return round_of(entry); });
    if (round_ + 1 == entry.call->rounds()) {
      if (!waits) fetch_next_post(*entry.call, false);
      round_ = 0;
      return true;
    }
    ++round_;
    [[maybe_unused]] const bool has_begun = begin(entry);
    assert(has_begun);  // see BoardCall::may_run_inline()
    waits = get_ready_to_wait(*entry.call);
  }
  return false;
}

/// Lets the others' posts come before this rank looks for them. False: it waits for none.
[[gnu::always_inline]] inline bool BoardCollectives::get_ready_to_wait(const BoardCall& call) noexcept {
  const bool come_now = is_exchange(call, round_) && !group_.context().oversubscribed;
  for (int pauses = come_now ? pauses_before_looking : 0; pauses > 0; --pauses) pause_shortly();
  const bool waits = !call.awaited(round_).empty();
  if (waits) fetch_next_post(call, true);
  return waits;
}

/// Prefetches what this rank writes next, in this call or in another one like it. Readers of earlier posts hold those
/// lines. A rank whose call ends with a post, such as the root of a broadcast, does so before it returns, rather than
/// wait for the lines in its next call (2 cores of a Xeon, reduce of 32 KiB: 5.2 us without, 3.3 with).
[[gnu::always_inline]] inline void BoardCollectives::fetch_next_post(const BoardCall& call, bool waits) noexcept {
  const int next = round_ + 1 < call.rounds() ? round_ + 1 : 0;
  const std::size_t size = call.size_of_round(next);
  const bool cores_are_shared = group_.context().oversubscribed;
  const auto keep_up = [this] { return board_->is_here((group_.rank() + 1) % group_.size()); };  // looks at one of them
  if (size <= most_fetched(cores_are_shared, waits) || (!cores_are_shared && !waits && keep_up()))
    board_->fetch_next(size, call.flow(next));
}

/// Waits a moment until all awaited ranks have begun the round. False: they have not.
bool BoardCollectives::wait_for_all(const Entry& entry) noexcept {
  const bool cores_are_shared = group_.context().oversubscribed;
  int looks = cores_are_shared ? 0 : looks_without_pause;
  if (all_of_host_wait(*entry.call, round_, group_.context()))
    looks = looks_before_yielding(*board_, entry.call->awaited(round_).subspan(checked_), group_.context());
  for (; looks > 0 && !group_.failing(); --looks) {
    cores_are_shared ? pause_briefly() : pause_shortly();
    if (all_are_here(entry)) return true;
  }
  if (!cores_are_shared) wake_sleepers();  // now that the post that they are to see has left this core
  ShortWait wait = group_.context().short_wait(hurried_);
  bool here = false;
  while (!here && !group_.failing() && wait.again()) {
    if (wait.tries() == tries_before_waking) wake_sleepers();
    here = all_are_here(entry);
  }
  has_yielded_ |= wait.has_yielded();
  if (!here) wake_sleepers();
  return here;
}

/// Waits a moment until slower ranks have read what lies where this rank will write.
bool BoardCollectives::wait_a_little_for_room(const BoardCall& call) noexcept {
  ShortWait wait = group_.context().short_wait(hurried_);
  while (!group_.failing() && wait.again())
    if (may_begin_inline(call)) return true;
  return false;
}

bool BoardCollectives::progress() noexcept {
  int rounds = 0;
  for (; rounds < rounds_per_pass && !queue_.empty() && !stuck_ && !group_.failing(); ++rounds) {
    const Entry& entry = queue_.front();
    if (!begun_ && (begun_ = begin(entry))) wake_sleepers();
    if (!begun_) break;
    if (!all_are_here(entry)) {
      if (!group_.failing()) heed_abort(entry.call->awaited(round_)[checked_]);
      break;
    }
    end_round();
  }
  return rounds > 0;
}

/// Asks the transport for the board. False: it is not there yet, or the group fails.
bool BoardCollectives::find_board(transport::BoardPart with) noexcept {
  if (board_ && board_->has(with)) return true;
  try {
    if (transport::Board* const board = transport_.board(channel_, group_.members(), with)) board_ = board;
  } catch (const std::exception& why) {
    const auto* const error = dynamic_cast<const Error*>(&why);
    group_.fail(Error{error ? error->code() : ErrorCode::system,
                      fmt::format("{}: {}", group_.name_of(group_.rank()), why.what()), group_.rank(),
                      collectives_.last_number()});
  }
  return board_ && board_->has(with);
}

/// Begins a round. False: a rank still reads what would be overwritten, or an injected fault has struck.
bool BoardCollectives::begin(const Entry& entry) noexcept {
  if (!find_board() || !may_begin(entry)) {
    if (!awaits_input(entry)) trace_.waits_to_begin();
    return false;
  }
  trace_.round_begins();
  if (round_ == 0) {
    std::span<const std::byte> contribution = entry.call->contribution();
    stuck_ = entry.operation && !entry.operation->play_faults(true, contribution);
    if (stuck_) return false;
    contribution_ = contribution.data();
  }
  post(entry);
  return true;
}

/// Posts this rank's contribution to the round, which may begin.
[[gnu::always_inline]] inline void BoardCollectives::post(const Entry& entry) noexcept {
  const std::size_t size = entry.call->size_of_round(round_);
  const std::size_t bytes = size > 0 ? put(*entry.call, size) : 0;
  const std::uint32_t number = transport::operation_of(*entry.words);
  if (all_of_host_wait(*entry.call, round_, group_.context())) board_->say_core(::sched_getcpu());
  const bool shows_before = number - std::exchange(last_posted_, number) <= 1;
  board_->begin(entry.history, *entry.words, collectives_.oldest_running(number),
                shows_before ? nullptr : entry.before);
  checked_ = 0;
  looked_for_sleepers_ = false;
  trace_.posted([&] { return round_of(entry); });
  if (entry.call->copies_own(round_)) {
    if (entry.call->part_bytes() > longest_before_waking) wake_sleepers();
    const std::int64_t begin = trace_.now();
    trace_.copied_own(round_of(entry), begin, entry.call->copy_own(round_));
  }
  if (!entry.operation) {
    posted_ += bytes;
    return;
  }
  entry.operation->count_sent(bytes);
  entry.operation->advance(round_);
}

[[gnu::always_inline]] inline std::size_t BoardCollectives::put(const BoardCall& call, std::size_t size) noexcept {
  if (!call.in_row()) return call.put(board_->room(size, call.flow(round_)), contribution_, round_, path_);
  const compute::FloatEnvironment environment;
  return call.row().add(board_->next_slot(call.row().late()), contribution_, round_);
}

/// False: the input is not there; a rank still reads what would be overwritten, or has aborted and never will have read
/// it; or the board has no room yet. The first rank of the group makes the room when one of its own calls needs it.
bool BoardCollectives::may_begin(const Entry& entry) noexcept {
  const bool has_room = find_board(entry.call->part());
  if (has_room && !awaits_input(entry) &&
      (entry.call->in_row() ? may_add(entry)
                            : board_->may_begin(entry.call->size_of_round(round_), entry.call->flow(round_))))
    return true;
  for (int rank = 0; rank < group_.size(); ++rank)
    if (!heed_abort(rank) && !has_room && heed_other_call(rank, entry)) break;
  return false;
}

/// Whether it is this rank's turn to add to the sum. The first rank of a row begins a new sum, once the slot is free.
bool BoardCollectives::may_add(const Entry& entry) noexcept {
  const RowCall& row = entry.call->row();
  const int before = row.before(round_);
  if (!row.adds_in(round_)) return true;  // the last rank has added everything, so all are close
  if (before < 0) return board_->may_use_slot();
  return board_->is_in_next(before) && !heed_other_call(before, entry);
}

/// The group fails soon if `rank` has begun the round that this rank is about to begin, in a call that differs.
bool BoardCollectives::heed_other_call(int rank, const Entry& entry) noexcept {
  if (rank == group_.rank() || !board_->differs_in_next(rank, entry.history)) return false;
  fail_for_other_call(rank, entry);
  return true;
}

/// From now on this rank only waits to be told which of them is wrong.
void BoardCollectives::fail_for_other_call(int rank, const Entry& entry) noexcept {
  if (std::exchange(stuck_, true)) return;
  const transport::Frame ours = transport::frame_of(*entry.words);
  group_.suspect(collectives_.mismatch(rank, ours, ours));
}

[[gnu::always_inline]] inline bool BoardCollectives::all_are_here(const Entry& entry) noexcept {
  const std::span<const int> awaited = entry.call->awaited(round_);
  for (; checked_ < awaited.size(); ++checked_) {
    const int rank = awaited[checked_];
    if (!is_here(rank, *entry.call)) return false;
    if (entry.call->in_row() || board_->history(rank) == entry.history) continue;
    fail_for_other_call(rank, entry);
    return false;
  }
  return true;
}

void BoardCollectives::end_round() noexcept {
  const Entry entry = queue_.front();
  const bool last = round_ + 1 >= entry.call->rounds();
  trace_.others_are_here();
  std::span<const std::byte> nothing;
  stuck_ = last && !entry.operation->play_faults(false, nothing);
  if (stuck_) return;
  {
    const compute::FloatEnvironment environment;
    entry.operation->count_received(entry.call->take(*board_, round_));
  }
  trace_.taken([&] { return round_of(entry); });
  begun_ = false;
  entry.operation->advance(++round_);
  if (!last) return;
  round_ = 0;
  queue_.pop();
  entry.operation->complete_all();
}

// ---- Sleeping --------------------------------------------------------------------------------------------------

/// Once for each post is enough.
[[gnu::always_inline]] inline void BoardCollectives::wake_sleepers() noexcept {
  if (std::exchange(looked_for_sleepers_, true)) return;
  const BoardCall* const call = queue_.empty() ? nullptr : queue_.front().call;
  board_->wake_sleepers([&](int rank) { return !call || !call->in_row() || call->row().may_let_go_on(rank, round_); },
                        [this](int rank) { transport_.wake(group_.global_rank(rank), channel_); });
}

/// False: the first operation need not wait any more.
bool BoardCollectives::prepare_sleep() noexcept {
  if (!board_) return stuck_ || group_.failing() || !find_board();  // the transport is woken when the board is there
  board_->arm();
  if (stuck_) return true;
  if (begun_) {
    const int awaited = queue_[0].call->awaited(round_)[checked_];
    return !is_here(awaited, *queue_[0].call) && !heed_abort(awaited);
  }
  return !may_begin(queue_.front()) && !group_.failing();
}

void BoardCollectives::awake() noexcept {
  if (board_) board_->disarm();
}

}  // namespace tutti::detail
