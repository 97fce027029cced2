// How calls over a board fail, and what errors say: whom they wait for, and which calls the others have made.

#include <algorithm>

#include "lib/board/board_collectives.h"
#include "lib/collective/collectives.h"
#include "lib/group/group.h"

namespace tutti::detail {
namespace {

/// Of the other ranks; the first such one in the row, since the rest wait for it.
int slowest_of(const RowCall& row, const transport::Board& board, int own_rank) {
  int slowest = -1;
  for (const int rank : row.ranks())
    if (rank != own_rank && (slowest < 0 || board.latest_of(rank) < board.latest_of(slowest))) slowest = rank;
  return slowest;
}

}  // namespace

bool BoardCollectives::heed_abort(int rank) noexcept {
  const auto words = board_->abort_reason(rank);
  if (words) group_.fail(*words);
  return words.has_value();
}

/// A rank that is through may leave, so it must not be among the answers.
bool BoardCollectives::awaits(int peer, const Operation& operation) const {
  if (queue_.empty() || queue_[0].operation != &operation || peer == group_.rank()) return false;
  const BoardCall& call = *operation.board();
  if (!begun_ && operation.awaits_input()) return false;
  if (!board_ || !board_->has(call.part())) return peer == 0;  // which makes it
  if (call.in_row()) return peer == slowest_of(call.row(), *board_, group_.rank());
  if (!begun_) return board_->latest_of(peer) < board_->round();  // and has not read what would be overwritten
  const auto awaited = call.awaited(round_).subspan(checked_);
  return std::ranges::find(awaited, peer) != awaited.end() && !is_here(peer, call);
}

std::vector<transport::Frame> BoardCollectives::calls_of(int peer) const {
  std::vector<transport::Frame> calls;
  if (!board_) return calls;
  const std::uint64_t last = board_->round() + 1;  // the peer may already be in the next round
  for (std::uint64_t round = last - std::min(last, transport::board_depth) + 1; round <= last; ++round) {
    for (const bool before : {true, false}) {
      const auto call = board_->call(peer, round, before);
      if (call && call->operation != 0) calls.push_back(*call);
    }
  }
  return calls;
}

/// The posts that are looked at stay: none can be overwritten before this rank begins another round.
std::optional<transport::Frame> BoardCollectives::call_after(int peer, std::uint64_t number) noexcept {
  if (!find_board()) return std::nullopt;
  for (std::uint64_t round = board_->round() + 1; round < board_->round() + transport::board_depth; ++round) {
    const auto oldest = board_->oldest_running(peer, round);
    if (oldest && transport::is_before(static_cast<std::uint32_t>(number), *oldest)) return board_->call(peer, round);
  }
  return std::nullopt;
}

}  // namespace tutti::detail
