#include "transport/memory/single_copy.h"

#include <algorithm>
#include <numeric>

namespace tutti::transport {
namespace {

using Times = std::array<std::chrono::nanoseconds, CopyChoice::most_tries>;

std::chrono::nanoseconds most_of(Times times, const CopyChoice::Trial& trial) {
  std::sort(times.begin(), times.begin() + trial.tries);
  return std::accumulate(times.begin(), times.begin() + trial.tries - trial.ignored, std::chrono::nanoseconds{});
}

}  // namespace

CopyChoice::CopyChoice(SingleCopy mode, bool cores_are_shared)
    : mode_(mode), copying_counts_(cores_are_shared ? 2 : 1) {
  for (std::size_t i = 0; i < classes; ++i) classes_[i].come = -trial_of(i).first;
  choose();
}

void CopyChoice::took(std::uint64_t bytes, bool lent, std::chrono::nanoseconds time) noexcept {
  const Trial trial = trial_of(class_of(bytes));
  Class& one = classes_[class_of(bytes)];
  ++one.come;
  int& count = lent ? one.lent : one.copied;
  if (one.come > 0 && count < trial.tries) {
    (lent ? one.lent_took : one.copied_took)[static_cast<std::size_t>(count++)] = time;
    if (one.lent >= trial.tries && one.copied >= trial.tries) decide(one, trial);
  }
  if (one.come >= tried_every) one.come = one.lent = one.copied = 0;
  choose();
}

void CopyChoice::summed(std::uint64_t bytes) noexcept {
  Class& one = classes_[class_of(bytes)];
  one.come = -after_sum;
  one.lent = one.copied = 0;
  one.lent_is_quicker = one.is_decided = false;
  choose();
}

/// Who is ahead stays so until the other is clearly quicker. At first nobody is.
void CopyChoice::decide(Class& one, const Trial& trial) noexcept {
  const auto lent = most_of(one.lent_took, trial), copied = copying_counts_ * most_of(one.copied_took, trial);
  if (!one.is_decided) {
    one.lent_is_quicker = lent < copied;
  } else {
    one.lent_is_quicker = one.lent_is_quicker ? lent * 19 < copied * 20 : lent * 20 < copied * 19;
  }
  one.is_decided = true;
}

void CopyChoice::give_up() noexcept {
  mode_ = SingleCopy::never;
  choose();
}

/// First those are tried that are lent. A sender may be some messages ahead of what is wished.
void CopyChoice::choose() noexcept {
  wishes_ = 0;
  if (mode_ == SingleCopy::never) return;
  for (std::size_t i = 0; i < classes; ++i) {
    const Class& one = classes_[i];
    const int tries = trial_of(i).tries;
    const bool tried = one.come >= 0 && (one.lent < tries || one.copied < tries);
    const bool lent = mode_ == SingleCopy::always || (tried ? one.lent < tries : one.lent_is_quicker);
    if (lent) wishes_ |= 1U << i;
  }
}

}  // namespace tutti::transport
