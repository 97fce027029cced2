#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace tutti::detail {

/// How much two ranks may send each other unasked, seen from one of them: so the memory that unexpected messages take
/// at a receiver is bounded.
class EagerCredit {
 public:
  /// A longer message is never sent unasked.
  static constexpr std::size_t longest = 64 * 1024;
  /// Of a sender at one receiver.
  static constexpr std::size_t limit = 1024 * 1024;
  /// What a message costs its receiver besides its bytes.
  static constexpr std::size_t overhead = 256;
  /// Credit is returned in lumps, so that a stream of small messages costs few extra frames.
  static constexpr std::size_t lump = limit / 4;

  // ---- What this rank sends
  bool allows(std::size_t bytes) const { return outstanding_ + bytes + overhead <= limit; }
  void spend(std::size_t bytes) { outstanding_ += bytes + overhead; }
  /// The message has found its place at the receiver, which will not return credit for it.
  void restore(std::size_t bytes) { returned(bytes + overhead); }
  /// A frame from the receiver returns credit.
  void returned(std::uint64_t credit) { outstanding_ -= std::min<std::uint64_t>(outstanding_, credit); }

  // ---- What it receives
  void consume(std::size_t bytes) { consumed_ += bytes + overhead; }
  bool owes_lump() const { return consumed_ >= lump; }
  /// What is to be returned to the sender now.
  std::uint64_t settle() { return std::exchange(consumed_, 0); }

 private:
  std::size_t outstanding_ = 0;  // sent and not returned
  std::size_t consumed_ = 0;     // taken from the peer and not returned
};

}  // namespace tutti::detail
