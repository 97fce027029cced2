#include "lib/failure/succession.h"

#include <algorithm>

namespace tutti::detail {
namespace {

using std::chrono::milliseconds;

/// If the coordinator has left on purpose, the job is usually about to end, and the next coordinator to leave, too.
constexpr milliseconds succession_pause{300};

}  // namespace

/// There is always a coordinator, since this rank is alive.
bool Succession::elect() {
  int next = 0;
  while (next < rank_ && !job_.is_alive(next)) ++next;
  return coordinator_.exchange(next) != next;
}

void Succession::note_gone(bool died) {
  predecessor_died_ = died;
  connect_at_ = Clock::now() + (died ? milliseconds{0} : succession_pause);
}

void Succession::note_sign_of_life() {
  if (const ControlConnection* const connection = connections_.find(coordinator_))
    led_until_ = std::max(led_until_, connection->heard());
}

void Succession::seek(Clock::time_point now, milliseconds beat, bool ready) {
  int open = reach(now, beat, ready);
  for (int rank = coordinator_; rank < rank_; ++rank) {
    if (!job_.is_alive(rank)) continue;
    if (const ControlConnection* const connection = connections_.find(rank)) {
      if (now - connection->heard() < beat * 3 / 2) return;
      continue;
    }
    if (open-- == 0) return;
    if (!connections_.attempts().contains(rank))
      connections_.attempts().connect(rank, job_.address(rank), std::max(now, connect_at_));
  }
}

/// How many candidates to connect to at the same time: four times as many after each beat without a coordinator.
int Succession::reach(Clock::time_point now, milliseconds beat, bool ready) const {
  int reach = 1;
  if (!ready) return reach;  // the first coordinator may be slow to start
  for (auto silence = now - led_until_ - beat * 5 / 2; silence.count() > 0 && reach < job_.size(); silence -= beat)
    reach *= 4;
  return reach;
}

}  // namespace tutti::detail
