#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/failure/control_message.h"
#include "lib/failure/detector_user.h"

namespace tutti::detail {

/// What a rank knows of the job: which ranks are alive, lost, or have left, and what else has failed. Threading: the
/// failure detector's thread; once it runs, name() from anywhere.
class JobState {
 public:
  using Clock = std::chrono::steady_clock;

  void begin(std::vector<Watched> ranks) {
    ranks_ = std::move(ranks);
    states_.assign(ranks_.size(), State::alive);
  }

  int size() const { return static_cast<int>(ranks_.size()); }
  bool exists(int rank) const { return rank >= 0 && rank < size(); }
  const std::string& name(int rank) const { return ranks_[static_cast<std::size_t>(rank)].name; }
  const std::string& address(int rank) const { return ranks_[static_cast<std::size_t>(rank)].address; }

  bool is_alive(int rank) const { return state(rank) == State::alive; }
  bool is_lost(int rank) const { return state(rank) == State::lost; }
  bool has_left(int rank) const { return state(rank) == State::left; }
  std::vector<int> all_that_left() const;
  Clock::time_point left_since(int rank) const { return left_since_.at(rank); }
  /// Whether its process is gone, and it is not known whether it left or died.
  bool went_unseen(int rank) const { return unseen_.contains(rank); }

  void set_lost(int rank) { states_[static_cast<std::size_t>(rank)] = State::lost; }
  enum class Seen : std::uint8_t { yes, no };
  void set_left(int rank, Seen seen);

  /// Remembers a failure. False: it was known.
  bool learn(const Failure& failure);
  /// Recent failures. A new coordinator tells them to ranks that did not hear them from the previous one.
  const std::vector<Failure>& failures() const { return failures_; }

 private:
  enum class State : std::uint8_t { alive, lost, left };

  State state(int rank) const { return states_[static_cast<std::size_t>(rank)]; }

  std::vector<Watched> ranks_;
  std::vector<State> states_;
  std::map<int, Clock::time_point> left_since_;
  std::set<int> unseen_;
  std::vector<Failure> failures_;
};

}  // namespace tutti::detail
