#include "transport/cuda_ipc/stream_links.h"

#include <atomic>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

#include "lib/base/memory_units.h"

namespace tutti::transport {
namespace {

static_assert(cache_line == StreamLinks::to_freed, "a word each");
constexpr std::size_t words_about_peer = 5;
constexpr std::size_t at_other_host = 2;  // a staged link has two words of either end, and none of captured calls

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
  return whole_pages(sharing.size() * (at(ranks) * words_about_peer + 1) * cache_line);
}

std::size_t StreamLinks::Form::slots_bytes() const {
  return sharing.size() * slots * slot_bytes + staging_bytes + tickets_bytes;
}

StreamLinks::StreamLinks(int rank, const Form& form, std::shared_ptr<std::byte> words, std::vector<Slots> slots)
    : rank_(rank),
      form_(form),
      index_(at(form_.ranks), -1),
      words_(std::move(words)),
      registered_(registered(words_.get(), form_.words_bytes())),
      slots_(std::move(slots)),
      incoming_(at(form_.ranks)),
      outgoing_(at(form_.ranks)) {
  for (std::size_t i = 0; i < form_.sharing.size(); ++i) index_[at(form_.sharing[i])] = static_cast<int>(i);
  const std::size_t of_link = form_.slots * form_.slot_bytes;
  for (const int peer : form_.sharing) {
    incoming_[at(peer)] = slots_[at(rank_)].address + at(index_[at(peer)]) * of_link;
    outgoing_[at(peer)] = slots_[at(peer)].address + at(index_[at(rank_)]) * of_link;
  }
}

/// The words of a rank elsewhere lie beside those about it.
std::size_t StreamLinks::offset_of(int owner, int about, Word word) const {
  const bool is_here = !is_staged(owner);
  const std::size_t pair = at(index_[at(is_here ? owner : about)]) * at(form_.ranks) + at(is_here ? about : owner);
  return (pair * words_about_peer + (is_here ? 0 : at_other_host) + static_cast<std::size_t>(word)) * cache_line;
}

std::size_t StreamLinks::offset_of_end(int rank) const {
  return (form_.sharing.size() * at(form_.ranks) * words_about_peer + at(index_[at(rank)])) * cache_line;
}

std::uint64_t StreamLinks::value(Word word, int peer) const noexcept {
  return word_at(words_.get() + offset_of(rank_, peer, word)).load(std::memory_order_acquire);
}

std::uint64_t StreamLinks::value_at_peer(Word word, int peer) const noexcept {
  return word_at(words_.get() + offset_of(peer, rank_, word)).load(std::memory_order_acquire);
}

void StreamLinks::set(Word word, int peer, std::uint64_t value) noexcept {
  word_at(words_.get() + offset_of(rank_, peer, word)).store(value, std::memory_order_release);
}

void StreamLinks::end_waits() noexcept {
  constexpr std::uint64_t beyond_all = std::numeric_limits<std::int64_t>::max();
  word_at(words_.get() + offset_of_end(rank_)).store(1, std::memory_order_release);  // before a wait ends
  for (int peer = 0; peer < form_.ranks; ++peer)
    for (const Word word : {Word::arrived, Word::freed}) set(word, peer, beyond_all);
  for (const int peer : form_.sharing)
    for (const Word word : {Word::captured_arrived, Word::captured_freed, Word::entered}) set(word, peer, beyond_all);
}

void StreamLinks::begin_captured() noexcept {
  for (const int peer : form_.sharing)
    for (const Word word : {Word::captured_arrived, Word::captured_freed}) set(word, peer, 0);
}

/// A peer enters the next call when it has waited for something of this rank in this one, which comes after the words
/// are 0 again.
void StreamLinks::enter(cuda::Commands& commands, std::span<const int> peers) const {
  for (const int peer : peers) signal(commands, Word::entered, peer, 1);
  for (const int peer : peers) {
    wait(commands, Word::entered, peer, 1);
    commands.write(address_of(rank_, peer, Word::entered), 0);
  }
}

bool StreamLinks::is_worthless() const noexcept {
  for (const int rank : form_.sharing)
    if (word_at(words_.get() + offset_of_end(rank)).load(std::memory_order_acquire) != 0) return true;
  return false;
}

}  // namespace tutti::transport
