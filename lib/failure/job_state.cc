#include "lib/failure/job_state.h"

#include <algorithm>

namespace tutti::detail {
namespace {

constexpr std::size_t most_verdicts = 64;

bool is_of_a_group(const Verdict& verdict) { return verdict.group != 0; }

}  // namespace

std::vector<int> JobState::all_that_left() const {
  std::vector<int> left;
  for (int rank = 0; rank < size(); ++rank)
    if (has_left(rank)) left.push_back(rank);
  return left;
}

void JobState::set_left(int rank, Seen seen) {
  states_[static_cast<std::size_t>(rank)] = State::left;
  left_since_.emplace(rank, Clock::now());
  if (seen == Seen::no) unseen_.insert(rank);
}

bool JobState::learn(const Verdict& verdict) {
  const bool known = std::ranges::any_of(verdicts_, [&](const Verdict& earlier) {
    return earlier.group == verdict.group && (verdict.group != 0 || earlier.culprit == verdict.culprit);
  });
  if (known) return false;
  // Worst case: said twice. Losses of processes are no more than there are ranks.
  if (std::ranges::count_if(verdicts_, is_of_a_group) == most_verdicts)
    verdicts_.erase(std::ranges::find_if(verdicts_, is_of_a_group));
  verdicts_.push_back(verdict);
  return true;
}

}  // namespace tutti::detail
