// One board for all ranks of a group: see board.h. The memory holds two arrays: posts, by round and rank, and notes, by
// rank, with one more note for the number of sleepers. The memory of the areas holds more arrays by round and rank, and
// the ranks' rings: see AreaLayout.

#include "transport/memory/board.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lib/base/fetch_to_write.h"
#include "lib/base/memory_units.h"

namespace tutti::transport {
std::size_t Board::bytes_for(int ranks) {
  const auto count = static_cast<std::size_t>(ranks);
  return whole_pages(count * (board_depth * sizeof(Post) + sizeof(Note)) + sizeof(Note));
}

// The first process to access an object begins its lifetime. All objects are trivial, and their initial value is zero.
Board::Board(std::shared_ptr<std::byte> memory, int ranks, int rank)
    : memory_(std::move(memory)),
      ranks_(ranks),
      rank_(rank),
      posts_(reinterpret_cast<Post*>(memory_.get())),
      posts_now_(posts(0)),
      posts_next_(posts(1)),
      notes_(reinterpret_cast<Note*>(memory_.get() + static_cast<std::size_t>(ranks) * board_depth * sizeof(Post))),
      sleepers_(&notes_[ranks].alarm) {}

void Board::add_areas(std::shared_ptr<std::byte> memory) noexcept {
  areas_ = std::move(memory);
  layout_ = AreaLayout::of(ranks_);
  const auto ring_at = [&](std::size_t rings, std::size_t bytes) {
    return ContributionRing{areas_.get() + rings + static_cast<std::size_t>(rank_) * bytes, bytes};
  };
  ring_ = ring_at(layout_.rings, layout_.ring_bytes);
  lone_ring_ = ring_at(layout_.lone_rings, layout_.lone_ring_bytes);
}

/// This rank has filled the other ring once, so this one is worth its pages, which cost half a millisecond. If there is
/// no memory for it, the other one goes on.
void Board::try_lone_ring() noexcept {
  lone_ring_use_ = lone_ring_.populate() ? LoneRingUse::in_use : LoneRingUse::no_memory;
}

/// Where `rank` writes its contribution to that round. Two ranks change places each time round. All have begun a later
/// round before an area is written again, so it does not matter whose it was.
std::byte* Board::area(int rank, std::uint64_t round, const AreaSet& areas) const noexcept {
  const std::uint64_t turn = round / areas.depth;
  const int owner = layout_.changes_hands ? rank ^ static_cast<int>(turn & 1) : rank;
  const std::size_t index = (round % areas.depth) * static_cast<std::size_t>(ranks_) + static_cast<std::size_t>(owner);
  return areas_.get() + areas.begin + index * areas.bytes;
}

/// Where this rank writes its contribution to the next round, which does not fit into a post.
std::byte* Board::next_room(std::size_t size, Flow flow) const noexcept {
  const AreaSet* const areas = layout_.areas_for(size, flow);
  return areas ? area(rank_, round_ + 1, *areas) : ring_for(flow).next(size);
}

/// Where it lies. The post need not say so if it is known, and then the processor fetches the data together with the
/// post (2 ranks, all_reduce of 256 B: 0.31 us by the post, 0.23 without).
const std::byte* Board::where(int rank, const std::byte* posted, std::size_t size, Flow flow) const noexcept {
  if (const AreaSet* const areas = layout_.known_areas_for(size, flow)) return area(rank, round_, *areas);
  std::size_t place = 0;
  std::memcpy(&place, posted, sizeof place);
  return areas_.get() + (place <= layout_.bytes - size ? place : 0);
}

bool Board::has_become_free(std::size_t size, Flow flow, std::uint64_t rounds) noexcept {
  const std::uint64_t last = round_ + rounds;
  if (size <= post_bytes) return all_have_begun(last + 1 - board_depth);
  if (const AreaSet* const areas = layout_.areas_for(size, flow)) return all_have_begun(last + 1 - areas->depth);
  const std::uint64_t of_post = last < board_depth ? 0 : last + 1 - board_depth;
  // Rounds of a row begin without looking, so the ring may have forgotten the oldest ones, and asks for too little.
  const std::uint64_t of_ring = ring_for(flow).round_that_makes_room(size, rounds, all_begun_, round_);
  return all_have_begun(std::max(of_post, of_ring)) && is_known_to_be_free(size, flow, rounds);
}

/// Looks for the newest round that each rank has begun, beginning with the latest. A rank that keeps up is therefore
/// checked only once in many rounds.
bool Board::all_have_begun(std::uint64_t needed) noexcept {
  std::uint64_t all = round_;
  for (int rank = 0; rank < ranks_; ++rank) {
    if (!has_reached(rank, needed)) return false;
    while (!has_reached(rank, all)) --all;
  }
  all_begun_ = all;
  ring_.all_have_begun(all);
  lone_ring_.all_have_begun(all);
  return true;
}

/// While a post is written, has_reached() takes it for that of any round that can lie there, also of one to come.
std::uint64_t Board::latest_of(int rank) const noexcept {
  const auto has_come_to = [&](std::uint64_t round) {
    return (post(rank, round).round.load(std::memory_order_acquire) & ~is_written) >= round;
  };
  std::uint64_t round = round_ + row_slots;
  while (round + row_slots > round_ && round > 0 && !has_come_to(round)) --round;
  return round;
}

void Board::fetch_next(std::size_t size, Flow flow) const noexcept {
  if (!is_known_to_be_free(size, flow, 1)) return;
  const Post& next = posts_next_[rank_];
  fetch_to_write(&next);
  fetch_to_write(&next.call);
  if (size > post_bytes && areas_) fetch_to_write(next_room(size, flow), size);
}

void Board::arm() noexcept {
  note(rank_).alarm.store(1);
  if (!is_armed_) sleepers_->fetch_add(1);
  is_armed_ = true;
}

void Board::disarm() noexcept {
  note(rank_).alarm.store(0, std::memory_order_relaxed);
  if (is_armed_) sleepers_->fetch_sub(1);
  is_armed_ = false;
}

/// Returns what `look` finds in a post, if the post is there and is not overwritten meanwhile.
template <class Look>
auto Board::find(int rank, std::uint64_t round, const Look& look) const noexcept {
  const Post& where = post(rank, round);
  std::optional<decltype(look(where))> found;
  if (where.round.load(std::memory_order_acquire) != round) return found;
  found = look(where);
  std::atomic_thread_fence(std::memory_order_acquire);
  if (where.round.load(std::memory_order_relaxed) != round) found.reset();
  return found;
}

std::optional<Frame> Board::call(int rank, std::uint64_t round, bool before) const noexcept {
  const auto words = find(rank, round, [before](const Post& post) {
    CallWords copy{};
    for (std::size_t i = 0; i < copy.size(); ++i)
      copy[i] = (before ? post.before : post.call)[i].load(std::memory_order_relaxed);
    return copy;
  });
  return words ? decode(*words) : std::nullopt;
}

std::optional<std::uint32_t> Board::oldest_running(int rank, std::uint64_t round) const noexcept {
  return find(rank, round, [](const Post& post) { return post.oldest_running.load(std::memory_order_relaxed); });
}

std::optional<Error> Board::abort_reason(int rank) const noexcept {
  const CloseRecord& close_record = note(rank).close_record;
  if (is_cut_ || close_record.departure.load(std::memory_order_acquire) != Departure::aborted) return std::nullopt;
  return transport::abort_reason(close_record);
}

}  // namespace tutti::transport
