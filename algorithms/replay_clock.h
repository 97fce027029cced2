#pragma once

// Computes when each step of all plans happens under a cost; private to the replay.

#include <functional>
#include <queue>
#include <set>
#include <tuple>
#include <vector>

#include "algorithms/check_world.h"
#include "algorithms/replay.h"

namespace tutti::algorithms {

class Clock {
 public:
  Clock(const checking::World& world, const checking::Run& run, const Cost& cost);

  void run();

  /// A step takes effect: a send when its message leaves, any other when it completes.
  struct Effect {
    Ticks at;
    checking::RankStep step;
  };
  const std::vector<Effect>& effects() const { return effects_; }
  std::vector<ReplayMessage> take_messages() { return std::move(messages_); }
  std::vector<std::vector<StepTime>> take_steps() { return std::move(times_); }

 private:
  struct State {
    std::uint32_t waits = 0;
    bool has_turn = false;  ///< no step is before it on its lane
    bool arrived = false;   ///< the message of a receive
    std::uint32_t message = 0;
  };
  struct Event {
    Ticks at;
    std::uint64_t order;  ///< of simultaneous events
    checking::RankStep step;
    friend bool operator>(const Event& a, const Event& b) { return std::tie(a.at, a.order) > std::tie(b.at, b.order); }
  };
  struct Offer {  ///< a send that could go
    Ticks ready;
    StepId step;
    int rank;
    StepId recv;  ///< the other end
    friend bool operator<(const Offer& a, const Offer& b) {
      return std::tie(a.ready, a.step) < std::tie(b.ready, b.step);
    }
  };

  State& state(checking::RankStep at) { return states_[world_.number(at.rank, at.step)]; }
  StepTime& time(checking::RankStep at) { return times_[checking::index(at.rank)][at.step]; }
  checking::RankStep partner(checking::RankStep at) const;

  void ready(checking::RankStep at);
  void give_turn(checking::RankStep at);
  void offer(checking::RankStep at);
  void receive(checking::RankStep at);
  void compute(checking::RankStep at);
  void happen(checking::RankStep at);
  void complete(checking::RankStep at);
  void start_messages();
  void start_message(const Offer& offer);

  const checking::World& world_;
  const checking::Run& run_;
  const Cost cost_;
  Ticks now_ = 0;
  std::vector<State> states_;
  std::vector<std::vector<StepTime>> times_;
  std::vector<Effect> effects_;
  std::vector<ReplayMessage> messages_;
  std::vector<std::set<Offer>> offers_;  // per rank
  std::set<int> offering_;               // ranks with offers
  std::vector<Ticks> out_free_;          // per rank
  std::vector<Ticks> in_free_;
  std::vector<Ticks> cpu_free_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t order_ = 0;
};

}  // namespace tutti::algorithms
