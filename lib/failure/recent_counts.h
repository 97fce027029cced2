#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::detail {

/// What this rank gave as counts in its last _v calls. Frames carry their sum at most, and a message of no elements is
/// never sent; so a rank keeps them to say where they differ from what others gave.
class RecentCounts {
 public:
  struct Counts {
    std::uint64_t number = 0;             ///< of the call; 0: none
    std::vector<std::uint64_t> sends;     ///< by rank: send_counts, or the counts that all ranks give alike
    std::vector<std::uint64_t> receives;  ///< recv_counts of an all_to_all_v, else empty
  };

  /// Both as offsets of the parts, with one entry more than there are ranks. Allocates nothing once the same slots have
  /// been used.
  void note(std::uint64_t number, std::span<const std::size_t> sends, std::span<const std::size_t> receives);
  /// Null: call `number` was no _v call, or it was too long ago.
  const Counts* of(std::uint64_t number) const;

 private:
  std::array<Counts, 16> recent_;
  std::size_t next_ = 0;
};

/// One of the two ranks of a pair whose counts in an all_to_all_v differ.
struct OneOfPair {
  int rank = -1;
  std::string name;  ///< "rank 2 (host a, pid 123)"
  std::uint64_t count = 0;
};
/// The two counts of a pair of ranks, as an error says it.
std::string unequal_counts(std::string_view call, const OneOfPair& sender, const OneOfPair& receiver);

/// "10, 20, 30", cut after some.
std::string list_of(std::span<const std::uint64_t> counts);

}  // namespace tutti::detail
