#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "algorithms/plan.h"

namespace tutti::algorithms::testing {

/// Runs plans beat by beat on a network that stores nothing: in each beat every link moves the next message, if both
/// its sender and its receiver were ready before. Local steps take no time.
class Lockstep {
 public:
  explicit Lockstep(const std::vector<Plan>& plans) : plans_(plans) {
    for (const Plan& plan : plans) {
      steps_left_ += plan.steps.size();
      waits_.push_back(plan.waits_for);
      next_.emplace_back();
      for (const Lane& lane : plan.lanes) next_.back().push_back(lane.first);
      local_.emplace_back();
      for (StepId step = 0; step < plan.steps.size(); ++step)
        if (plan.steps[step].peer < 0) local_.back().push_back(step);
    }
    while (beat()) ++beats_;
  }

  /// How many beats it took, and how many steps never ran.
  int beats() const { return beats_; }
  std::size_t steps_left() const { return steps_left_; }

 private:
  struct Meeting {
    std::size_t from, from_lane, to, to_lane;
  };

  bool beat() {
    for (std::size_t rank = 0; rank < plans_.size(); ++rank) run_local(rank);
    std::vector<Meeting> meetings;
    for (std::size_t from = 0; from < plans_.size(); ++from)
      for (std::size_t lane = 0; lane < plans_[from].lanes.size(); ++lane)
        if (plans_[from].lanes[lane].direction == Direction::out && is_ready(from, lane)) {
          const auto to = static_cast<std::size_t>(plans_[from].lanes[lane].peer);
          const std::size_t to_lane = lane_from(to, static_cast<int>(from));
          if (to_lane < plans_[to].lanes.size() && is_ready(to, to_lane)) meetings.push_back({from, lane, to, to_lane});
        }
    for (const Meeting& meeting : meetings) {
      advance(meeting.from, meeting.from_lane);
      advance(meeting.to, meeting.to_lane);
    }
    return !meetings.empty();
  }

  bool is_ready(std::size_t rank, std::size_t lane) const {
    const StepId step = next_[rank][lane];
    return step != no_step && waits_[rank][step] == 0;
  }

  std::size_t lane_from(std::size_t rank, int peer) const {
    const auto& lanes = plans_[rank].lanes;
    const auto matches = [&](const Lane& lane) { return lane.peer == peer && lane.direction == Direction::in; };
    return static_cast<std::size_t>(std::find_if(lanes.begin(), lanes.end(), matches) - lanes.begin());
  }

  void advance(std::size_t rank, std::size_t lane) {
    finish(rank, next_[rank][lane]);
    next_[rank][lane] = plans_[rank].next_on_lane[next_[rank][lane]];
  }

  void run_local(std::size_t rank) {
    const auto run = [&](StepId step) {
      if (waits_[rank][step] != 0) return false;
      finish(rank, step);
      return true;
    };
    while (std::erase_if(local_[rank], run) > 0) {
    }
  }

  void finish(std::size_t rank, StepId step) {
    --steps_left_;
    for (const StepId after : plans_[rank].successors(step)) --waits_[rank][after];
  }

  const std::vector<Plan>& plans_;
  std::vector<std::vector<std::uint32_t>> waits_;
  std::vector<std::vector<StepId>> next_;   // per lane: the first message that has not moved
  std::vector<std::vector<StepId>> local_;  // per rank: local steps that have not run
  std::size_t steps_left_ = 0;
  int beats_ = 0;
};

}  // namespace tutti::algorithms::testing
