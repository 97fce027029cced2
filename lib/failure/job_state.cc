#include "lib/failure/job_state.h"

#include <algorithm>

namespace tutti::detail {
namespace {

constexpr std::size_t most_failures = 64;

bool is_of_a_group(const Failure& failure) { return failure.group != 0; }

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

bool JobState::learn(const Failure& failure) {
  const bool known = std::ranges::any_of(failures_, [&](const Failure& earlier) {
    return earlier.group == failure.group && (failure.group != 0 || earlier.culprit == failure.culprit);
  });
  if (known) return false;
  // At worst a failure is told twice. Losses are never forgotten, since there are no more than ranks.
  if (std::ranges::count_if(failures_, is_of_a_group) == most_failures)
    failures_.erase(std::ranges::find_if(failures_, is_of_a_group));
  failures_.push_back(failure);
  return true;
}

}  // namespace tutti::detail
