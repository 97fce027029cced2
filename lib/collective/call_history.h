#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "lib/collective/call_buffers.h"
#include "lib/collective/planner.h"
#include "lib/failure/recent_counts.h"
#include "transport/frame.h"
#include "tutti/error.h"

namespace tutti::detail {

class BoardCollectives;
class Group;
struct Status;

/// The latest calls of this rank on one communicator, in the order in which they began. Thanks to them a rank that is
/// ahead can still say what it called, and an error can say how the calls of two ranks differ.
class CallHistory {
 public:
  explicit CallHistory(const Group& group) : group_(group) {}

  /// Numbers a call that begins. Returns `call` with that number; the reference stays valid while the call is
  /// remembered. `whole`: as in part_of().
  const transport::CallWords& begin(const transport::CallWords& call, const Prepared& prepared, bool in_window,
                                    const char* whole) noexcept {
    ++started_;
    auto [kinds, number_and_root, algorithm_and_window, count] = call;
    number_and_root = number_and_root >> 32 << 32 | static_cast<std::uint32_t>(started_);
    hash_ = extended(hash_, kinds, number_and_root, algorithm_and_window, count);
    Entry& entry = entries_[started_ % remembered];
    entry = {started_, {kinds, number_and_root, algorithm_and_window, count}, &prepared, in_window, whole};
    return entry.call;
  }
  void end(std::uint64_t number) noexcept { finished_ = finished_ < number ? number : finished_; }
  /// Remembers the counts of a _v call that has begun.
  void note_counts(const transport::Frame& call, std::uint64_t number, const PartOffsets& offsets);

  /// Number of the last call that has begun; 0: none has.
  std::uint64_t last_number() const noexcept { return started_; }
  /// A hash of all calls that have begun. It differs between ranks whose calls differ.
  std::uint64_t hash() const noexcept { return hash_; }
  /// Call `number`, which must be one of the last `remembered`.
  const transport::CallWords& call(std::uint64_t number) const noexcept { return entry(number).call; }
  bool remembers(std::uint64_t number) const noexcept { return entry(number).number == number; }
  /// The number of a call from its lower half, which is all that frames carry.
  std::uint64_t full_number(std::uint32_t operation) const noexcept {
    return started_ - static_cast<std::uint32_t>(static_cast<std::uint32_t>(started_) - operation);
  }

  /// The error for a peer that has made another call than this rank, or sent a message of another length. `board`:
  /// where calls of `peer` can be looked up, or null.
  Error mismatch(int peer, transport::Frame theirs, transport::Frame ours, const BoardCollectives* board) const;
  /// What differs, if `peer` sent `sent` elements in the all_to_all_v `ours` and this rank expects another number; else
  /// empty.
  std::string counts_that_differ(int peer, const transport::Frame& ours, std::uint64_t sent) const;
  /// Writes to `status` what this rank knows about its call `number`.
  void describe_call(std::uint64_t number, Status& status) const;

 private:
  struct Entry {
    std::uint64_t number = 0;
    transport::CallWords call{};
    const Prepared* prepared = nullptr;
    bool in_window = false;
    const char* whole = nullptr;
  };
  static constexpr std::size_t remembered = 64;

  /// The hash of the calls up to this one, from that of the calls before it.
  static std::uint64_t extended(std::uint64_t hash, std::uint64_t kinds, std::uint64_t number_and_root,
                                std::uint64_t algorithm_and_window, std::uint64_t count) noexcept {
    constexpr std::uint64_t odd = 0x9e3779b97f4a7c15, another = 0xbf58476d1ce4e5b9;
    std::uint64_t digest = (hash ^ kinds ^ number_and_root * another) * odd;
    digest = (digest ^ digest >> 31 ^ algorithm_and_window * another ^ count) * odd;
    return digest ^ digest >> 29;
  }
  const Entry& entry(std::uint64_t number) const noexcept { return entries_[number % remembered]; }
  /// For part_of().
  const char* whole_of(const transport::Frame& ours) const;
  /// The algorithm of a call of this rank: "ring:2".
  std::string algorithm_of(const transport::Frame& ours) const;
  /// How two calls differ for which describe() says the same.
  std::string difference(const transport::Frame& theirs, const transport::Frame& ours) const;

  const Group& group_;
  std::array<Entry, remembered> entries_;
  RecentCounts counts_;
  std::uint64_t started_ = 0;
  std::uint64_t finished_ = 0;
  std::uint64_t hash_ = 0;
};

}  // namespace tutti::detail
