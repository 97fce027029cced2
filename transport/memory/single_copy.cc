#include "transport/memory/single_copy.h"

#include <algorithm>
#include <numeric>

namespace tutti::transport {
namespace {

using Times = std::array<std::chrono::nanoseconds, CopyChoice::most_tries>;

/// Where cores are shared. `single` and `copied` are sums over the tries that count. A sender whose message has been
/// read must get the core before it can go on.
bool is_clearly_faster(std::chrono::nanoseconds single, std::chrono::nanoseconds copied,
                       const CopyChoice::Trial& trial) {
  constexpr std::chrono::microseconds turn{1};
  return (single + turn * (trial.tries - trial.ignored)) * 8 < copied * 7;
}

std::chrono::nanoseconds most_of(Times times, const CopyChoice::Trial& trial) {
  std::sort(times.begin(), times.begin() + trial.tries);
  return std::accumulate(times.begin(), times.begin() + trial.tries - trial.ignored, std::chrono::nanoseconds{});
}

}  // namespace

CopyChoice::CopyChoice(SingleCopy mode, bool cores_are_shared) : mode_(mode), cores_are_shared_(cores_are_shared) {
  for (std::size_t i = 0; i < classes; ++i) classes_[i].come = -trial_of(i).first;
  choose();
}

bool CopyChoice::is_trying(std::uint64_t bytes, bool single) const noexcept {
  const std::size_t index = class_of(bytes);
  const Class& one = classes_[index];
  return mode_ == SingleCopy::measured && one.come >= 0 && (single ? one.single : one.copied) < trial_of(index).tries;
}

bool CopyChoice::is_watching(std::uint64_t bytes) const noexcept {
  const Class& one = classes_[class_of(bytes)];
  return mode_ == SingleCopy::measured && !cores_are_shared_ && one.is_decided && one.single_is_faster;
}

void CopyChoice::took(std::uint64_t bytes, bool single, std::chrono::nanoseconds time) noexcept {
  const Trial trial = trial_of(class_of(bytes));
  Class& one = classes_[class_of(bytes)];
  ++one.come;
  int& count = single ? one.single : one.copied;
  const bool is_try = one.come > 0 && count < trial.tries;
  if (is_try) {
    (single ? one.single_took : one.copied_took)[static_cast<std::size_t>(count++)] = time;
    if (one.copied >= trial.tries) decide(one, trial);
  } else if (single && is_watching(bytes)) {
    one.slow = is_slow(one, trial, time) ? one.slow + 1 : 0;
  }
  if (one.come >= tried_every || one.slow >= most_slow) one.come = one.single = one.copied = one.slow = 0;
  if (is_try || one.come == 0) choose();
}

void CopyChoice::summed(std::uint64_t bytes) noexcept {
  Class& one = classes_[class_of(bytes)];
  one.come = -after_sum;
  one.single = one.copied = 0;
  one.single_is_faster = one.is_decided = false;
  choose();
}

/// The faster way stays chosen until the other one is 5 % faster. At first neither is chosen. Single copy also ends
/// when its first tries leave no hope.
void CopyChoice::decide(Class& one, const Trial& trial) noexcept {
  const auto copied = one.copied_in_all = most_of(one.copied_took, trial);
  if (is_hopeless(one, trial, copied)) {
    one.single = trial.tries;
    one.single_is_faster = false;
  } else if (one.single < trial.tries) {
    return;
  } else if (const auto single = most_of(one.single_took, trial); !one.is_decided) {
    one.single_is_faster = cores_are_shared_ ? is_clearly_faster(single, copied, trial) : single < copied;
  } else {
    one.single_is_faster = one.single_is_faster ? single * 19 < copied * 20 : single * 20 < copied * 19;
  }
  one.is_decided = true;
}

/// Where cores are shared: no single copy has been clearly faster. Else all have been a tenth slower, and single copy
/// is not the way that is ahead, which one message that waited for something else must not change.
bool CopyChoice::is_hopeless(const Class& one, const Trial& trial, std::chrono::nanoseconds copied) const noexcept {
  if (one.single < trial.hopeful) return false;
  const auto fastest = *std::min_element(one.single_took.begin(), one.single_took.begin() + one.single);
  const auto all = fastest * (trial.tries - trial.ignored);
  if (cores_are_shared_) return !is_clearly_faster(all, copied, trial);
  return !one.single_is_faster && all * 10 > copied * 11;
}

bool CopyChoice::is_slow(const Class& one, const Trial& trial, std::chrono::nanoseconds single) noexcept {
  return single * (trial.tries - trial.ignored) * 2 > one.copied_in_all * 3;
}

/// Single copies are tried last, since one of them may be enough. A sender may be some messages ahead of the wish that
/// it has read.
void CopyChoice::choose() noexcept {
  wishes_ = 0;
  if (mode_ == SingleCopy::never) return;
  for (std::size_t i = 0; i < classes; ++i) {
    const Class& one = classes_[i];
    const int tries = trial_of(i).tries;
    const bool tried = one.come >= 0 && (one.single < tries || one.copied < tries);
    const bool single = mode_ == SingleCopy::always || (tried ? one.copied >= tries : one.single_is_faster);
    if (single) wishes_ |= 1U << i;
    if (mode_ == SingleCopy::measured && tried && one.copied < tries) wishes_ |= 1U << (classes + i);
  }
}

}  // namespace tutti::transport
