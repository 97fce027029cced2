#include "lib/failure/recent_counts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tutti::detail {
namespace {

void to_counts(std::span<const std::size_t> offsets, std::vector<std::uint64_t>& counts) {
  counts.resize(offsets.empty() ? 0 : offsets.size() - 1);
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] = offsets[i + 1] - offsets[i];
}

}  // namespace

void RecentCounts::note(std::uint64_t number, std::span<const std::size_t> sends,
                        std::span<const std::size_t> receives) {
  Counts& counts = recent_[next_];
  next_ = (next_ + 1) % recent_.size();
  counts.number = number;
  to_counts(sends, counts.sends);
  to_counts(receives, counts.receives);
}

const RecentCounts::Counts* RecentCounts::of(std::uint64_t number) const {
  const auto found = std::ranges::find(recent_, number, &Counts::number);
  return number == 0 || found == recent_.end() ? nullptr : &*found;
}

std::string unequal_counts(std::string_view call, const OneOfPair& sender, const OneOfPair& receiver) {
  return fmt::format(
      "{} gave {} as send_counts[{}] in {}, but {} gave {} as recv_counts[{}]: {} sent, {} expected; both must give "
      "the "
      "same count",
      sender.name, sender.count, receiver.rank, call, receiver.name, receiver.count, sender.rank, sender.count,
      receiver.count);
}

std::string list_of(std::span<const std::uint64_t> counts) {
  constexpr std::size_t most = 32;
  return fmt::format("{}{}", fmt::join(counts.first(std::min(counts.size(), most)), ", "),
                     counts.size() > most ? ", ..." : "");
}

}  // namespace tutti::detail
