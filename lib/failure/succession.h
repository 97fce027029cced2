#pragma once

#include <atomic>
#include <chrono>

#include "lib/failure/connections.h"
#include "lib/failure/job_state.h"

namespace tutti::detail {

/// Decides which rank is the coordinator: the lowest that is alive, as far as this rank knows. Connects to further
/// candidates while it is silent. Threading: coordinator() from anywhere, the rest on the failure detector's thread.
class Succession {
 public:
  using Clock = std::chrono::steady_clock;

  Succession(int rank, const JobState& job, Connections& connections)
      : rank_(rank), job_(job), connections_(connections) {}

  int coordinator() const { return coordinator_.load(); }
  /// Elects the coordinator. False: it is the same as before.
  bool elect();
  /// Notes that the coordinator is gone.
  void note_gone(bool died);
  /// Whether the previous coordinator died, rather than left on purpose.
  bool predecessor_died() const { return predecessor_died_; }

  /// When a coordinator last sent anything. Until then it listened to all ranks.
  Clock::time_point led_until() const { return led_until_; }
  void set_led_until(Clock::time_point then) { led_until_ = then; }
  void note_sign_of_life();
  /// Connects to the coordinator, and while that is silent also to the next candidates, until one of them answers.
  void seek(Clock::time_point now, std::chrono::milliseconds beat, bool ready);

 private:
  int reach(Clock::time_point now, std::chrono::milliseconds beat, bool ready) const;

  const int rank_;
  const JobState& job_;
  Connections& connections_;
  std::atomic<int> coordinator_ = 0;
  bool predecessor_died_ = false;
  Clock::time_point led_until_{};
  Clock::time_point connect_at_{};  // earliest time to connect to the coordinator
};

}  // namespace tutti::detail
