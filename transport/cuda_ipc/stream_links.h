#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "lib/base/gpu/commands.h"
#include "lib/base/gpu/memory.h"

namespace tutti::transport {

/// The links between the GPUs of a group whose ranks are on one host, used by commands on streams: a link from each
/// rank to each other one. Its slots lie in the memory of the receiver's GPU. They are filled and freed in order, and
/// message m uses slot m mod `slots`.
///
/// Each link has two words, which count messages for as long as the links exist. `arrived` is the receiver's, `freed`
/// the sender's, so that a stream waits for words of its own rank, and writes to those of peers. The words lie in
/// memory of the host that all ranks map: there a store of the host ends a wait, and the host sees how far each link
/// is.
///
/// Threading: any thread.
class StreamLinks {
 public:
  /// The same on all ranks.
  struct Form {
    int ranks = 1;
    std::size_t slot_bytes = 0;  ///< a multiple of 256
    std::uint32_t slots = 1;     ///< of each link

    /// Of the words of all links.
    std::size_t words_bytes() const;
    /// Of the slots of one rank.
    std::size_t slots_bytes() const;
  };
  enum class Word : std::uint8_t { arrived, freed };
  /// The slots of a rank, as this process sees them, and the object that lets it.
  struct Slots {
    cuda::Address address = 0;
    std::shared_ptr<const void> owner{};
  };

  /// `words`: of all ranks, zero at first. `slots`: by rank, this one's own among them. Needs a current context.
  StreamLinks(int rank, const Form& form, std::shared_ptr<std::byte> words, std::vector<Slots> slots);

  const Form& form() const { return form_; }
  /// The slot for messages of `peer`.
  cuda::Address incoming(int peer, std::uint32_t slot) const;
  /// The slot for messages to `peer`.
  cuda::Address outgoing(int peer, std::uint32_t slot) const;

  /// Lets a stream wait until this rank's word about `peer` has reached `value`.
  void wait(cuda::Commands& commands, Word word, int peer, std::uint64_t value) const {
    commands.wait(address_of(rank_, peer, word), value);
  }
  /// Sets the word about this rank at `peer`, once all before it in the stream has run.
  void signal(cuda::Commands& commands, Word word, int peer, std::uint64_t value) const {
    commands.write(address_of(peer, rank_, word), value);
  }

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
  cuda::Address address_of(int owner, int about, Word word) const {
    return registered_->address() + offset_of(owner, about, word);
  }
  std::size_t offset_in_slots(int sender, std::uint32_t slot) const;

  const int rank_;
  const Form form_;
  std::shared_ptr<std::byte> words_;
  std::shared_ptr<const cuda::RegisteredMemory> registered_;  // the same, for GPUs
  std::vector<Slots> slots_;
};

}  // namespace tutti::transport
