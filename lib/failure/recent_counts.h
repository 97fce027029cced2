#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::detail {

/// The counts that this rank gave in its last _v calls. Frames carry only their sum, and a message without elements is
/// never sent. So a rank keeps them, to say where they differ from those of other ranks.
class RecentCounts {
 public:
  struct Counts {
    std::uint64_t number = 0;             ///< number of the call; 0: none
    std::vector<std::uint64_t> sends;     ///< by rank: send_counts, or counts that all ranks must give alike
    std::vector<std::uint64_t> receives;  ///< recv_counts of an all_to_all_v, else empty
  };

  /// Takes both as offsets of the parts, with one more entry than there are ranks. Allocates nothing once the same
  /// slots have been used.
  void note(std::uint64_t number, std::span<const std::size_t> sends, std::span<const std::size_t> receives);
  /// The counts of call `number`; null: it was no _v call, or is no longer remembered.
  const Counts* of(std::uint64_t number) const;

 private:
  std::array<Counts, 16> recent_;
  std::size_t next_ = 0;
};

/// One of two ranks whose counts in an all_to_all_v differ.
struct OneOfPair {
  int rank = -1;
  std::string name;  ///< "rank 2 (host a, pid 123)"
  std::uint64_t count = 0;
};
/// The text of an error about the differing counts of two ranks.
std::string unequal_counts(std::string_view call, const OneOfPair& sender, const OneOfPair& receiver);

/// "10, 20, 30": the first few.
std::string list_of(std::span<const std::uint64_t> counts);

}  // namespace tutti::detail
