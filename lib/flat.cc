#include "lib/flat.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "lib/collectives.h"
#include "lib/context.h"
#include "lib/group.h"
#include "lib/short_wait.h"

namespace tutti::detail {
namespace {

/// Other things want to be done, too.
constexpr int rounds_per_pass = 16;
constexpr int tries_before_waking = 32;

}  // namespace

Flat::Flat(Group& group, transport::Transport& transport, transport::Channel channel, std::size_t limit)
    : group_(group),
      transport_(transport),
      channel_(channel),
      limit_(limit),
      capacity_(transport::Board::capacity(group.size())) {}

bool Flat::serves(const Prepared& prepared, std::size_t contribution) const {
  return contribution <= limit_ && prepared.name == "direct";
}

void Flat::start(const Entry& entry) noexcept {
  const bool is_next = queue_.empty();
  if (entry.operation->has_begun()) {
    begun_ = true;
    entry.operation->advance(1, 2);
  }
  queue_.push(entry);
  if (is_next) progress();
  if (!queue_.empty()) group_.context().engine->poll(*this);
}

void Flat::clear() noexcept {
  queue_.clear();
  begun_ = stuck_ = false;
  round_ = 0;
  board_ = nullptr;
  group_.context().engine->forget(*this);
}

// ---- One call after the other ----------------------------------------------------------------------------------

bool Flat::end_at_once(const Entry& entry) noexcept {
  while (wait_a_little(entry)) {
    entry.call->take(*board_, round_);
    if (++round_ == entry.call->rounds()) {
      round_ = 0;
      return true;
    }
    begin(entry);  // it may: all have begun the round before
  }
  return false;
}

/// Until all are here.
bool Flat::wait_a_little(const Entry& entry) noexcept {
  ShortWait wait{group_.context().oversubscribed};
  bool here = all_are_here(entry);
  while (!here && !group_.failing() && wait.again()) {
    // Sleepers are looked for a little later: by then what they are to see has long left this core.
    if (wait.tries() == tries_before_waking) wake_sleepers();
    here = all_are_here(entry);
  }
  wake_sleepers();
  return here;
}

bool Flat::progress() noexcept {
  int rounds = 0;
  for (; rounds < rounds_per_pass && !queue_.empty() && !stuck_ && !group_.failing(); ++rounds) {
    const Entry& entry = queue_.front();
    if (!begun_ && (begun_ = begin(entry))) wake_sleepers();
    if (!begun_ || !all_are_here(entry)) break;
    end_round();
  }
  return rounds > 0;
}

/// False: it has not come yet, or the group fails.
bool Flat::find_board() noexcept {
  if (board_) return true;
  try {
    board_ = transport_.board(channel_, group_.members());
  } catch (const Error& error) {
    group_.fail(Error{error.code(), fmt::format("{}: {}", group_.name_of(group_.rank()), error.what()), group_.rank(),
                      group_.collectives().last_number()});
  }
  return board_ != nullptr;
}

/// False: it must wait for who still reads there, or an injected fault has struck.
bool Flat::begin(const Entry& entry) noexcept {
  if (!find_board() || !may_begin()) return false;
  if (round_ == 0) {
    std::span<const std::byte> contribution = entry.call->contribution();
    stuck_ = entry.operation && !entry.operation->play_faults(true, contribution);
    if (stuck_) return false;
    contribution_ = contribution.data();
  }
  entry.call->put(board_->room(entry.call->size_of_round(round_)), contribution_, round_);
  transport::Frame call = entry.frame;  // its length says here that all calls before that one have ended on this rank
  call.length = group_.collectives().oldest_running(entry.frame.operation);
  board_->begin(entry.history, call, entry.before);
  checked_ = 0;
  if (entry.operation) entry.operation->advance(2 * round_ + 1, 2 * entry.call->rounds());
  return true;
}

/// False: somebody still reads what lies there, or has aborted and never will have done so.
bool Flat::may_begin() noexcept {
  if (board_->may_begin()) return true;
  for (int rank = 0; rank < group_.size(); ++rank) heed_last_words(rank);
  return false;
}

bool Flat::heed_last_words(int rank) noexcept {
  const auto words = board_->last_words(rank);
  if (words) group_.fail(*words);
  return words.has_value();
}

bool Flat::all_are_here(const Entry& entry) noexcept {
  for (; checked_ < group_.size(); ++checked_) {
    if (checked_ == group_.rank() || !entry.call->reads(checked_)) continue;
    if (!board_->is_here(checked_)) {
      heed_last_words(checked_);
      return false;
    }
    if (board_->digest(checked_) == entry.history) continue;
    group_.fail(group_.collectives().mismatch(checked_, entry.frame, entry.frame));
    return false;
  }
  return true;
}

void Flat::end_round() noexcept {
  const Entry entry = queue_.front();
  const bool last = round_ + 1 >= entry.call->rounds();
  std::span<const std::byte> nothing;
  stuck_ = last && !entry.operation->play_faults(false, nothing);
  if (stuck_) return;
  entry.call->take(*board_, round_);
  begun_ = false;
  ++round_;
  if (!last) return;
  round_ = 0;
  queue_.pop();
  entry.operation->complete_all();
}

// ---- What errors say -------------------------------------------------------------------------------------------

bool Flat::awaits(int peer, const Operation& operation) const {
  if (queue_.empty() || queue_[0].operation != &operation || peer == group_.rank()) return false;
  return !begun_ || (peer >= checked_ && operation.flat()->reads(peer) && !board_->is_here(peer));
}

std::vector<transport::Frame> Flat::calls_of(int peer) const {
  std::vector<transport::Frame> calls;
  if (!board_) return calls;
  const std::uint64_t last = board_->round();
  for (std::uint64_t round = last - std::min(last, transport::board_depth) + 1; round <= last; ++round) {
    for (const bool before : {true, false}) {
      auto call = board_->call(peer, round, before);
      if (!call || call->operation == 0) continue;
      call->length = 0;
      calls.push_back(*call);
    }
  }
  return calls;
}

/// None of these posts can be written again before this rank has begun another round.
std::optional<transport::Frame> Flat::call_after(int peer, std::uint64_t number) noexcept {
  if (!find_board()) return std::nullopt;
  for (std::uint64_t round = board_->round() + 1; round < board_->round() + transport::board_depth; ++round) {
    const auto call = board_->call(peer, round);
    if (call && transport::is_before(static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(call->length)))
      return call;
  }
  return std::nullopt;
}

// ---- Sleeping --------------------------------------------------------------------------------------------------

void Flat::wake_sleepers() noexcept {
  board_->before_alarms();
  for (int rank = 0; rank < group_.size(); ++rank)
    if (rank != group_.rank() && board_->takes_down_alarm(rank)) transport_.wake(group_.global_rank(rank), channel_);
}

/// False: what the first operation waits for is there.
bool Flat::prepare_sleep() noexcept {
  if (!board_) return stuck_ || group_.failing() || !find_board();  // its coming wakes the transport
  board_->arm();
  if (stuck_) return true;
  return begun_ ? !board_->is_here(checked_) && !heed_last_words(checked_) : !may_begin() && !group_.failing();
}

void Flat::awake() noexcept {
  if (board_) board_->disarm();
}

}  // namespace tutti::detail
