#pragma once

#include <algorithm>
#include <chrono>

#include "transport/reactor.h"

namespace tutti::transport {

/// Sleeps until something happens for this rank, at most until `until`. `look` raises the alarms by which other ranks
/// know that they must wake this one, and returns whether there is nothing to do. It may be called twice; its caller
/// lowers the alarms afterwards.
///
/// A rank that leaves something in shared memory reads the alarm at once, before its store can be seen. To wait for
/// that, with a fence, would cost it a trip of a cache line for each message. So if it does so just when this rank
/// raises the alarm, each may miss what the other one has stored. This rank therefore looks again a little later, with
/// the alarm still up: by then all stores that were on their way have arrived, and every later one comes with a
/// wake-up.
template <class Look>
void sleep_until_woken(Reactor& reactor, Reactor::Clock::time_point until, Look&& look) {
  /// A store is on its way for a fraction of a microsecond, or for some if many are before it. The reactor sleeps whole
  /// milliseconds, so the second look comes after one.
  constexpr std::chrono::microseconds arriving{100};
  if (!look()) return static_cast<void>(reactor.poll());
  const auto second_look = std::min(Reactor::Clock::now() + arriving, until);
  do {
    if (reactor.sleep(second_look)) return;  // Reactor::wake_by() may end it earlier
  } while (Reactor::Clock::now() < second_look);
  if (second_look == until) return;
  look() ? static_cast<void>(reactor.sleep(until)) : static_cast<void>(reactor.poll());
}

}  // namespace tutti::transport
