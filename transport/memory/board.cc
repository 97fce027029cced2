// One board for all ranks of a group: see board.h. The memory holds two arrays: posts, by round and rank, and notes, by
// rank, with one more note for the number of sleepers. The memory of the areas holds more arrays by round and rank:
// small areas, large areas for contributions that do not fit there, and among two ranks large areas of exchanges.

#include "transport/memory/board.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace tutti::transport {
namespace {

constexpr std::size_t page = 4096;

std::size_t round_up(std::size_t bytes) { return (bytes + page - 1) / page * page; }

}  // namespace

std::size_t Board::bytes_for(int ranks) {
  const auto count = static_cast<std::size_t>(ranks);
  return round_up(count * (board_depth * sizeof(Post) + sizeof(Note)) + sizeof(Note));
}

std::size_t Board::capacity(int ranks) {
  constexpr std::size_t all = 1024 * 1024, most = 128 * 1024, least = 8 * 1024;
  return std::clamp(std::bit_floor(all / static_cast<std::size_t>(ranks)), least, most);
}

std::uint64_t Board::large_area_depth(int ranks) {
  constexpr std::size_t all = 4 * 1024 * 1024, most = 16;
  if (ranks == 2) return most - exchange_depth(ranks);
  return std::clamp(std::bit_floor(all / (static_cast<std::size_t>(ranks) * capacity(ranks))), least_depth, most);
}

std::size_t Board::small_area_bytes(int ranks) { return ranks > 2 ? 1024 : 0; }

std::size_t Board::bytes_of_areas(int ranks) {
  const std::uint64_t large = large_area_depth(ranks) + (ranks == 2 ? exchange_depth(ranks) : 0);
  const std::size_t of_each = board_depth * small_area_bytes(ranks) + large * capacity(ranks);
  return static_cast<std::size_t>(ranks) * of_each;
}

// The first process to access an object begins its lifetime. All objects are trivial, and their initial value is zero.
Board::Board(std::shared_ptr<std::byte> memory, int ranks, int rank)
    : memory_(std::move(memory)),
      ranks_(ranks),
      rank_(rank),
      posts_(reinterpret_cast<Post*>(memory_.get())),
      posts_now_(posts_),
      notes_(reinterpret_cast<Note*>(memory_.get() + static_cast<std::size_t>(ranks) * board_depth * sizeof(Post))),
      sleepers_(&notes_[ranks].alarm),
      capacity_(capacity(ranks)) {}

void Board::add_areas(std::shared_ptr<std::byte> memory) noexcept {
  areas_ = std::move(memory);
  small_area_bytes_ = small_area_bytes(ranks_);
  large_area_depth_ = large_area_depth(ranks_);
  exchange_depth_ = exchange_depth(ranks_);
  const auto ranks = static_cast<std::size_t>(ranks_);
  large_ = areas_.get() + ranks * board_depth * small_area_bytes_;
  exchanged_ = ranks_ == 2 ? large_ + ranks * large_area_depth_ * capacity_ : large_;
}

/// Where `rank` writes the `size` bytes that it contributes to that round, which do not fit into a post.
std::byte* Board::area(int rank, std::uint64_t round, std::size_t size, Flow flow) const noexcept {
  // Two ranks change places each time, since a core that has read an area can write it at once (2 ranks on different
  // cores, all_gather of 16 KiB: 1.15 us without, 0.88 with; all_reduce 1.69 and 1.24). All have begun a
  // later round before an area is written again, so it does not matter whose it was.
  const std::uint64_t count = depth(size, flow);
  const std::uint64_t turn = round / count;
  const int owner = ranks_ == 2 ? rank ^ static_cast<int>(turn & 1) : rank;
  const std::size_t index = (round % count) * static_cast<std::size_t>(ranks_) + static_cast<std::size_t>(owner);
  if (size <= small_area_bytes_) return areas_.get() + index * small_area_bytes_;
  return (is_exchanged(size, flow) ? exchanged_ : large_) + index * capacity_;
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
  return true;
}

std::uint64_t Board::latest_of(int rank) const noexcept {
  std::uint64_t round = round_ + row_slots;
  while (round + row_slots > round_ && round > 0 && !has_reached(rank, round)) --round;
  return round;
}

void Board::begin(std::uint64_t history, const CallWords& call, std::uint32_t oldest_running,
                  const CallWords* before) noexcept {
  posts_now_ = posts(++round_);
  if (is_cut_) return;
  Post& mine = posts_now_[rank_];
  mine.round.store(round_ | is_written, std::memory_order_release);  // says also that earlier rounds have been read
  std::atomic_thread_fence(std::memory_order_release);
  mine.history = history;
  for (std::size_t i = 0; i < call.size(); ++i) mine.call[i].store(call[i], std::memory_order_relaxed);
  for (std::size_t i = 0; before && i < before->size(); ++i)
    mine.before[i].store((*before)[i], std::memory_order_relaxed);
  mine.oldest_running.store(oldest_running, std::memory_order_relaxed);
  mine.round.store(round_, std::memory_order_release);
}

// The compiler emits a prefetch for writing only if this function is allowed to use that instruction.
#if defined(__x86_64__)
__attribute__((target("prfchw")))
#endif
void Board::fetch_next(std::size_t size, Flow flow) const noexcept {
  constexpr std::size_t line = 64;
  if (!is_known_to_be_free(size, flow, 1)) return;
  const Post& next = post(rank_, round_ + 1);
  __builtin_prefetch(&next, 1);
  __builtin_prefetch(&next.call, 1);
  if (size <= post_bytes || !areas_) return;
  const std::byte* const begin = area(rank_, round_ + 1, size, flow);
  for (std::size_t at = 0; at < size; at += line) __builtin_prefetch(begin + at, 1);
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
