#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "lib/base/gpu/commands.h"
#include "lib/base/gpu/memory.h"
#include "lib/base/index.h"

namespace tutti::transport {

/// The links between the GPUs of a group, used by commands on streams: a link from each rank to each other one. Slots
/// are filled and freed in order, and message m uses slot m mod `slots`.
///
/// Each link has two words, which count messages for as long as the links exist. `arrived` is the receiver's, `freed`
/// the sender's, so that a stream waits for words of its own rank, and writes to those of peers. The words lie in
/// memory of the host that all its ranks map: there a store of the host ends a wait, and the host sees how far each
/// link is.
///
/// Commands that are captured into a graph run again and again with the same values, so they count in words of their
/// own, from 0 on in each call. Before it, the host sets those of its rank to 0 (begin_captured()), and then ranks wait
/// for each other (enter()), so that nobody counts in a word that is still to be set to 0.
///
/// Between ranks that share memory, the slots lie in the memory of the receiver's GPU. All other links are staged: each
/// end has slots of its own in pinned memory, and words of its own, also those that its stream writes. Somebody has to
/// move the messages, and to set the words that streams wait for.
///
/// Threading: any thread.
class StreamLinks {
 public:
  /// The same on all ranks that share memory.
  struct Form {
    int ranks = 1;
    std::size_t slot_bytes = 0;     ///< a multiple of 256
    std::uint32_t slots = 1;        ///< of each link
    std::vector<int> sharing;       ///< the ranks that share memory with this one, itself among them, in order
    std::size_t staging_bytes = 0;  ///< where a rank has copies of its buffers for the others

    /// Of the words of all links of the ranks that share memory.
    std::size_t words_bytes() const;
    /// Of the slots of one rank in its GPU, its staging area, and the counters of its kernels.
    std::size_t slots_bytes() const;
    static constexpr std::size_t tickets_bytes = 256;
  };
  /// The last three are of captured calls, and of ranks that share memory.
  enum class Word : std::uint8_t { arrived, freed, captured_arrived, captured_freed, entered };
  /// The word in which a call counts, which may be a captured one. `word`: arrived or freed.
  static constexpr Word counting(Word word, bool is_captured) {
    if (!is_captured) return word;
    return word == Word::arrived ? Word::captured_arrived : Word::captured_freed;
  }
  /// The slots of a rank, as this process sees them, and the object that lets it.
  struct Slots {
    cuda::Address address = 0;
    std::shared_ptr<const void> owner{};
  };

  /// `words`: of the ranks that share memory, zero at first. `slots`: by rank, this one's own among them. Needs a
  /// current context.
  StreamLinks(int rank, const Form& form, std::shared_ptr<std::byte> words, std::vector<Slots> slots);

  const Form& form() const { return form_; }
  /// The slot for messages of `peer`.
  cuda::Address incoming(int peer, std::uint32_t slot) const { return incoming_[at(peer)] + slot * form_.slot_bytes; }
  /// The slot for messages to `peer`.
  cuda::Address outgoing(int peer, std::uint32_t slot) const { return outgoing_[at(peer)] + slot * form_.slot_bytes; }
  /// The staging area of a rank, in the memory of its GPU, behind its slots. All ranks share memory.
  cuda::Address staging(int rank) const { return tickets_of(rank) - form_.staging_bytes; }
  /// Two counters of 32 bits that belong to the kernels of this rank, in the memory of its GPU; somebody has to clear
  /// them at first.
  cuda::Address tickets() const { return tickets_of(rank_); }

  bool is_staged(int peer) const { return index_[at(peer)] < 0; }
  bool has_staged() const { return form_.sharing.size() < at(form_.ranks); }
  /// Where the slots of a staged link lie, before a call uses it.
  void place_incoming(int peer, cuda::Address slots) { incoming_[at(peer)] = slots; }
  void place_outgoing(int peer, cuda::Address slots) { outgoing_[at(peer)] = slots; }
  /// `task` runs on a thread of the driver's when a stream has written a word of a staged link.
  void notice_signals(std::function<void()> task) { notice_ = std::move(task); }
  /// Sets this rank's word about the peer of a staged link.
  void set(Word word, int peer, std::uint64_t value) noexcept;

  /// Lets a stream wait until this rank's word about `peer` has reached `value`.
  void wait(cuda::Commands& commands, Word word, int peer, std::uint64_t value) const {
    commands.wait(address_of(rank_, peer, word), value);
  }
  /// Sets the word about this rank at `peer`, once all before it in the stream has run.
  void signal(cuda::Commands& commands, Word word, int peer, std::uint64_t value) const {
    commands.write(address_of(peer, rank_, word), value);
    if (is_staged(peer)) commands.call(notice_);
  }

  /// Where a kernel finds the word `arrived` of this rank about `peer`, and the one about this rank at `peer`. `freed`
  /// lies `to_freed` bytes behind it. Both ranks share memory.
  cuda::Address own_word(int peer) const { return address_of(rank_, peer, Word::arrived); }
  cuda::Address word_at_peer(int peer) const { return address_of(peer, rank_, Word::arrived); }
  static constexpr std::size_t to_freed = 64;

  // ---- Captured calls
  /// Before a stream gets to a captured call: all that its peers have counted there in the last one is zero again.
  void begin_captured() noexcept;
  /// Lets a stream wait until those of all `peers` do the same, and have begun the call.
  void enter(cuda::Commands& commands, std::span<const int> peers) const;

  /// This rank's word about `peer`, as the host sees it.
  std::uint64_t value(Word word, int peer) const noexcept;
  /// The word about this rank at `peer`.
  std::uint64_t value_at_peer(Word word, int peer) const noexcept;
  /// Ends all waits of this rank by a store, those for any value. A peer may still write to the words, so this is to be
  /// called again until the stream has run to its end. From here on this rank sends worthless data, and is_worthless()
  /// says so to its peers.
  void end_waits() noexcept;
  /// Whether a rank has ended its waits before it sent all that has arrived here.
  bool is_worthless() const noexcept;

 private:
  std::size_t offset_of(int owner, int about, Word word) const;
  /// Of the word that says whether `rank` has ended its waits.
  std::size_t offset_of_end(int rank) const;
  cuda::Address tickets_of(int rank) const {
    return slots_[at(rank)].address + form_.slots_bytes() - Form::tickets_bytes;
  }
  cuda::Address address_of(int owner, int about, Word word) const {
    return registered_->address() + offset_of(owner, about, word);
  }

  const int rank_;
  const Form form_;
  std::vector<int> index_;  // by rank: its place among those that share memory, or -1
  std::shared_ptr<std::byte> words_;
  std::shared_ptr<const cuda::RegisteredMemory> registered_;  // the same, for GPUs
  std::vector<Slots> slots_;                                  // by rank
  std::vector<cuda::Address> incoming_, outgoing_;            // by peer: the first slot
  std::function<void()> notice_;
};

}  // namespace tutti::transport
