#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace tutti::detail {

/// How much one rank may send another eagerly, and how much of it is outstanding. It bounds the memory that unexpected
/// messages take at a receiver.
///
/// Credit comes late: in portions, perhaps over a connection of its own. A sender without credit asks, as for a long
/// message, and its receiver grants what has room there although there is no receive for it. So a send waits for its
/// receive only if others of its sender fill the receiver's memory, whenever credit comes. At most twice the limit
/// waits at a receiver: once sent eagerly, once granted.
class EagerCredit {
 public:
  /// A longer message is never sent eagerly.
  static constexpr std::size_t longest = 256 * 1024;
  /// Outstanding bytes of one sender at one receiver.
  static constexpr std::size_t limit = 1024 * 1024;
  /// Counted for each message, besides its bytes.
  static constexpr std::size_t overhead = 256;
  /// Credit is returned in portions of this size, so that a stream of messages costs few extra frames. It is more than
  /// the longest message, each of which would else cost one (exchanges of 256 KiB by two ranks, back to back: 21.6 us
  /// with half of this size, 14.4 with this). A burst of sends may therefore find only half of
  /// the limit free.
  static constexpr std::size_t lump = limit / 2;

  static_assert(lump > longest + overhead && limit - lump >= longest + overhead, "credit comes before it is needed");

  // ---- Messages that this rank sends
  bool allows(std::size_t bytes) const { return outstanding_ + bytes + overhead <= limit; }
  void spend(std::size_t bytes) { outstanding_ += bytes + overhead; }
  /// The receiver has found a receive for the message, and will not return credit for it.
  void restore(std::size_t bytes) { returned(bytes + overhead); }
  /// A frame of the receiver returns credit.
  void returned(std::uint64_t credit) { outstanding_ -= std::min<std::uint64_t>(outstanding_, credit); }

  // ---- Messages that it receives
  void consume(std::size_t bytes) { consumed_ += bytes + overhead; }
  bool owes_lump() const { return consumed_ >= lump; }
  /// The credit to return to the sender now.
  std::uint64_t settle() { return std::exchange(consumed_, 0); }
  /// A message waits at this rank, and waits no more.
  void hold(std::size_t bytes) { held_ += bytes + overhead; }
  void release(std::size_t bytes) { held_ -= bytes + overhead; }
  /// Whether one more may wait for which the sender has no credit.
  bool has_room(std::size_t bytes) const { return held_ + bytes + overhead <= limit; }

 private:
  std::size_t outstanding_ = 0;  // sent, and credit not returned yet
  std::size_t consumed_ = 0;     // received, and credit not returned yet
  std::size_t held_ = 0;         // waiting for receives
};

}  // namespace tutti::detail
