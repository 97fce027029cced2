#include "transport/shm/board_pool.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>

#include "tutti/error.h"

namespace tutti::transport {
namespace {

/// The smallest board, of two ranks, has 40 KiB. There are few sizes, so that groups of different ranks share chunks.
constexpr std::size_t least_place = std::size_t{64} << 10;
/// If a chunk is full, the next one has twice as many places, up to this many.
constexpr std::size_t most_places = 4096;
/// Places of failed groups that stay open to late members.
constexpr std::size_t most_failed = 8;

/// Groups with which a chunk is sent to a peer before the members of one have found their places. They may all be on
/// their way, and the system limits descriptors on their way. Another group finds its place once the chunk has come for
/// one of these.
constexpr std::size_t most_sent = 16;

}  // namespace

// ---- Own -------------------------------------------------------------------------------------------------------

BoardPool::Own& BoardPool::with_free_place(Channel name, std::size_t bytes) {
  const std::size_t place_bytes = std::max(std::bit_ceil(bytes), least_place);
  std::size_t places = PoolChunk::places_in_bucket;
  for (Own& own : own_) {
    if (own.chunk->place_bytes() != place_bytes) continue;
    if (own.chunk->has_free_place(name)) return own;
    places = std::min(2 * places, most_places);
  }
  return own_.emplace_back(Own{PoolChunk::make(places, place_bytes), {}, {}});
}

/// A rank that has entered a place has the chunk. One that was only sent it may have had no room for it.
bool BoardPool::must_be_sent(Own& own, int peer) {
  if (own.is_known_to.contains(peer)) return false;
  const auto sent = own.sent_to.find(peer);
  if (sent == own.sent_to.end()) return true;
  if (std::ranges::all_of(sent->second, [&](Channel name) { return own.chunk->is_incomplete(name); }))
    return sent->second.size() < most_sent;
  own.is_known_to.insert(peer);
  own.sent_to.erase(sent);
  return false;
}

std::shared_ptr<std::byte> BoardPool::give(Channel name, std::span<const int> members, const MemoryNeed& need,
                                           const HandOver& hand_over) {
  Own& own = with_free_place(name, need.bytes);
  std::vector<int> peers;
  for (const int peer : members)
    if (peer != rank_ && must_be_sent(own, peer)) peers.push_back(peer);
  for (const int peer : peers) hand_over(peer, own.chunk->descriptor());
  auto place = own.chunk->give(name, need, members.size());
  for (const int peer : peers) own.sent_to[peer].push_back(name);
  return place;
}

bool BoardPool::is_awaited() const noexcept {
  return std::ranges::any_of(own_, [](const Own& own) { return own.chunk->is_awaited(); });
}

/// The chunk with the place of that name, if some members have not entered it. That they do not come says nothing of
/// whether they have the chunk.
PoolChunk* BoardPool::given_up(Channel name) noexcept {
  const auto incomplete = std::ranges::find_if(own_, [=](const Own& own) { return own.chunk->is_incomplete(name); });
  if (incomplete == own_.end()) return nullptr;
  for (auto& [peer, names] : incomplete->sent_to) std::erase(names, name);
  return incomplete->chunk.get();
}

void BoardPool::withdraw(Channel name) noexcept {
  if (PoolChunk* const chunk = given_up(name)) chunk->withdraw(name);
}

void BoardPool::group_failed(Channel name) noexcept {
  if (std::ranges::count(failed_, name) > 0 || !given_up(name)) return;
  failed_.push_back(name);
  if (failed_.size() <= most_failed) return;
  for (const Own& own : own_) own.chunk->withdraw(failed_.front());
  failed_.pop_front();
}

// ---- Others' ---------------------------------------------------------------------------------------------------

std::shared_ptr<std::byte> BoardPool::find(Channel name, int owner, std::size_t bytes) {
  const auto look = [&]() -> std::shared_ptr<std::byte> {
    const auto known = others_.find(owner);
    if (known == others_.end()) return nullptr;
    for (const auto& chunk : known->second)
      if (chunk->place_bytes() >= bytes)
        if (auto place = chunk->enter(name)) return place;
    return nullptr;
  };
  auto place = look();
  if (!place && missing_.emplace(name, owner).second && is_waiting_) {
    wait_for(owner);
    place = look();
  }
  if (place) {
    forget(name);
    return place;
  }
  const auto refused = refused_.find(name);
  if (refused == refused_.end()) return nullptr;
  const std::string why = std::move(refused->second);
  refused_.erase(refused);
  throw Error(ErrorCode::system, why);
}

void BoardPool::forget(Channel name) noexcept {
  missing_.erase(name);
  refused_.erase(name);
}

void BoardPool::add(int owner, Channel name, const Descriptor& chunk) {
  auto& chunks = others_[owner];
  if (std::ranges::any_of(chunks, [&](const auto& known) { return known->is_in(chunk); })) return;
  auto mapped = PoolChunk::map(chunk);
  if (auto* const taken = std::get_if<std::shared_ptr<PoolChunk>>(&mapped)) {
    chunks.push_back(std::move(*taken));
  } else {
    refused_[name] = fmt::format("cannot use the memory that rank {} shares: {}", owner, std::get<std::string>(mapped));
  }
}

void BoardPool::add_refused(int owner, Channel name, const std::string& why) {
  refused_[name] = fmt::format("cannot take the memory that rank {} shares: {}", owner, why);
}

void BoardPool::begin_to_wait() noexcept {
  is_waiting_ = true;
  for (const auto& [name, owner] : missing_) wait_for(owner);
}

/// A rank without a chunk of the owner's is woken when one arrives.
void BoardPool::wait_for(int owner) noexcept {
  const auto known = others_.find(owner);
  if (known == others_.end()) return;
  for (const auto& chunk : known->second) {
    chunk->begin_to_wait();
    waits_for_.push_back(chunk);
  }
}

void BoardPool::end_waiting() noexcept {
  is_waiting_ = false;
  for (const auto& chunk : waits_for_) chunk->end_waiting();
  waits_for_.clear();
}

}  // namespace tutti::transport
