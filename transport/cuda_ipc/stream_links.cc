#include "transport/cuda_ipc/stream_links.h"

#include <atomic>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

namespace tutti::transport {
namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t line = 64;  // of a cache: a word each
constexpr std::size_t words_about_peer = 2;

constexpr std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

std::atomic_ref<std::uint64_t> word_at(std::byte* memory) {
  return std::atomic_ref<std::uint64_t>{*reinterpret_cast<std::uint64_t*>(memory)};
}

/// Memory can be registered once only, and ranks that are threads have one mapping of their words.
std::shared_ptr<const cuda::RegisteredMemory> registered(std::byte* data, std::size_t size) {
  static std::mutex& mutex = *new std::mutex;
  static auto& all = *new std::map<std::byte*, std::weak_ptr<const cuda::RegisteredMemory>>;
  const std::lock_guard lock{mutex};
  if (auto there = all[data].lock()) return there;
  const std::shared_ptr<const cuda::RegisteredMemory> made{new cuda::RegisteredMemory{data, size},
                                                           [data](const cuda::RegisteredMemory* old) {
                                                             const std::lock_guard lock_of_end{mutex};
                                                             delete old;
                                                             if (all[data].expired()) all.erase(data);
                                                           }};
  all[data] = made;
  return made;
}

}  // namespace

std::size_t StreamLinks::Form::words_bytes() const {
  return ((at(ranks) * at(ranks) * words_about_peer + at(ranks)) * line + page - 1) / page * page;
}

std::size_t StreamLinks::Form::slots_bytes() const { return at(ranks) * slots * slot_bytes; }

StreamLinks::StreamLinks(int rank, const Form& form, std::shared_ptr<std::byte> words, std::vector<Slots> slots)
    : rank_(rank),
      form_(form),
      words_(std::move(words)),
      registered_(registered(words_.get(), form_.words_bytes())),
      slots_(std::move(slots)) {}

std::size_t StreamLinks::offset_of(int owner, int about, Word word) const {
  return ((at(owner) * at(form_.ranks) + at(about)) * words_about_peer + static_cast<std::size_t>(word)) * line;
}

std::size_t StreamLinks::offset_of_end(int rank) const { return offset_of(form_.ranks, 0, Word{}) + at(rank) * line; }

std::size_t StreamLinks::offset_in_slots(int sender, std::uint32_t slot) const {
  return (at(sender) * form_.slots + slot) * form_.slot_bytes;
}

cuda::Address StreamLinks::incoming(int peer, std::uint32_t slot) const {
  return slots_[at(rank_)].address + offset_in_slots(peer, slot);
}

cuda::Address StreamLinks::outgoing(int peer, std::uint32_t slot) const {
  return slots_[at(peer)].address + offset_in_slots(rank_, slot);
}

std::uint64_t StreamLinks::value(Word word, int peer) const noexcept {
  return word_at(words_.get() + offset_of(rank_, peer, word)).load(std::memory_order_acquire);
}

std::uint64_t StreamLinks::value_at_peer(Word word, int peer) const noexcept {
  return word_at(words_.get() + offset_of(peer, rank_, word)).load(std::memory_order_acquire);
}

void StreamLinks::end_waits() noexcept {
  constexpr std::uint64_t beyond_all = std::numeric_limits<std::int64_t>::max();
  word_at(words_.get() + offset_of_end(rank_)).store(1, std::memory_order_release);  // before a wait ends
  for (int peer = 0; peer < form_.ranks; ++peer)
    for (const Word word : {Word::arrived, Word::freed})
      word_at(words_.get() + offset_of(rank_, peer, word)).store(beyond_all, std::memory_order_release);
}

bool StreamLinks::is_worthless() const noexcept {
  for (int rank = 0; rank < form_.ranks; ++rank)
    if (word_at(words_.get() + offset_of_end(rank)).load(std::memory_order_acquire) != 0) return true;
  return false;
}

}  // namespace tutti::transport
