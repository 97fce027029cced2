#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace tutti::detail {

/// How much one rank may send another eagerly, and how much of it is outstanding. It bounds the memory that unexpected
/// messages take at a receiver.
class EagerCredit {
 public:
  /// A longer message is never sent eagerly.
  static constexpr std::size_t longest = 256 * 1024;
  /// Outstanding bytes of one sender at one receiver.
  static constexpr std::size_t limit = 1024 * 1024;
  /// Counted for each message, besides its bytes.
  static constexpr std::size_t overhead = 256;
  /// Credit is returned in portions of this size, so that a stream of small messages costs few extra frames.
  static constexpr std::size_t lump = limit / 4;

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

 private:
  std::size_t outstanding_ = 0;  // sent, and credit not returned yet
  std::size_t consumed_ = 0;     // received, and credit not returned yet
};

}  // namespace tutti::detail
