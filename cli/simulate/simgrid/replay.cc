// An actor for each step of each rank. It waits until the steps before it are done and its predecessor on its lane has
// begun, executes the step, and notifies the steps that wait for it. Semaphores count what a step still waits for.
//
// A send takes the port of its rank, which serves messages in the order of arrival, as in the model. From there on
// SimGrid divides the links among messages that meet. The actors wait for the gaps of both ports.

#include "cli/simulate/simgrid/replay.h"

#include <fmt/core.h>

#include <algorithm>
#include <deque>
#include <simgrid/s4u.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "algorithms/describe.h"
#include "cli/simulate/simgrid/platform.h"
#include "cli/simulate/simgrid_limits.h"

namespace tutti::cli::simgrid {
namespace {

namespace s4u = ::simgrid::s4u;
using algorithms::Plan;
using algorithms::StepId;
using algorithms::Verb;
using simulate::Distance;

constexpr double picosecond = 1e-12;

/// One port of a rank: into its host, or to other hosts.
struct Port {
  s4u::MutexPtr out = s4u::Mutex::create();
  double in_free = 0;  ///< seconds: when the next message may arrive
};

struct Rank {
  Port& port(Distance distance) { return distance >= Distance::leaf ? outside : inside; }

  Plan plan;
  std::vector<s4u::SemaphorePtr> may_begin;  ///< per step
  std::vector<std::uint32_t> waits;          ///< per step: number of others that it waits for
  std::vector<std::uint32_t> number;         ///< per step: its number among the messages of its lane
  Port inside, outside;
  s4u::MutexPtr arithmetic = s4u::Mutex::create();
};

class Replay {
 public:
  Replay(const simulate::SimulatedCall& simulated, const simulate::Network& network)
      : network_(network), sizes_(simulated), unfinished_(add_plans(simulated)), platform_(network, simulated.ranks) {
    for (int rank = 0; rank < simulated.ranks; ++rank)
      for (StepId id = 0; id < at(rank).plan.steps.size(); ++id)
        s4u::Actor::create("step", platform_.host(rank), [this, rank, id] { act(rank, id); });
  }

  double run() {
    s4u::Engine::get_instance()->run();
    if (unfinished_ > 0) throw std::logic_error("SimGrid: the plans do not get to their end.");
    return last_;
  }

 private:
  Rank& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  std::size_t add_plans(const simulate::SimulatedCall& simulated) {
    std::size_t steps = 0;
    for (int rank = 0; rank < simulated.ranks; ++rank) steps += add(simulated.plan(rank));
    return steps;
  }

  std::size_t add(Plan plan) {
    Rank& rank = ranks_.emplace_back();
    const std::size_t steps = plan.steps.size();
    rank.waits.assign(steps, 0);
    rank.number.assign(steps, 0);
    for (StepId id = 0; id < steps; ++id) {
      rank.may_begin.push_back(s4u::Semaphore::create(0));
      for (const StepId next : plan.successors(id)) ++rank.waits[next];
    }
    for (const algorithms::Lane& lane : plan.lanes) {
      std::uint32_t number = 0;
      for (StepId id = lane.first; id != algorithms::no_step; id = plan.next_on_lane[id]) {
        if (number > 0) ++rank.waits[id];
        rank.number[id] = number++;
      }
    }
    rank.plan = std::move(plan);
    return steps;
  }

  void act(int rank, StepId id) {
    Rank& own = at(rank);
    const algorithms::Step& step = own.plan.steps[id];
    const std::size_t bytes = sizes_.of(own.plan, simulate::range_of(step));
    const bool is_sent = bytes > 0 && !algorithms::is_local(step.verb);
    // Memory is unlimited: a message arrives even before its step has begun.
    if (is_sent && algorithms::receives(step.verb)) await(rank, id, bytes);
    for (std::uint32_t i = 0; i < own.waits[id]; ++i) own.may_begin[id]->acquire();
    if (const StepId next = own.plan.next_on_lane[id]; next != algorithms::no_step) own.may_begin[next]->release();
    if (is_sent && step.verb == Verb::send) return send(rank, id, bytes);
    if (algorithms::is_local(step.verb) || (is_sent && step.verb == Verb::recv_reduce)) {
      const double work = step.verb == Verb::copy ? network_.copying(bytes) : network_.reduction(bytes);
      own.arithmetic->lock();
      s4u::this_actor::execute(work);
      own.arithmetic->unlock();
    }
    finish(own, id);
  }

  void send(int rank, StepId id, std::size_t bytes) {
    Rank& own = at(rank);
    const int to = own.plan.steps[id].peer;
    const Distance distance = network_.distance(rank, to);
    const simulate::MessageCost cost = network_.cost(distance, bytes);
    s4u::Mutex& port = *own.port(distance).out;
    port.lock();
    const s4u::CommPtr message = mailbox(rank, to, own.number[id])->put_init(&nothing_, bytes);
    if (cost.transfer > 0) message->set_rate(static_cast<double>(bytes) / (cost.transfer * picosecond));
    message->wait();
    finish(own, id);
    s4u::this_actor::sleep_for(cost.gap * picosecond);
    port.unlock();
  }

  void await(int rank, StepId id, std::size_t bytes) {
    const int from = at(rank).plan.steps[id].peer;
    const Distance distance = network_.distance(from, rank);
    const simulate::MessageCost cost = network_.cost(distance, bytes);
    mailbox(from, rank, at(rank).number[id])->get<char>();
    s4u::this_actor::sleep_for(cost.latency * picosecond);
    double& free = at(rank).port(distance).in_free;
    const double there = std::max(s4u::Engine::get_clock(), free);
    free = there + cost.gap * picosecond;
    s4u::this_actor::sleep_until(there);
  }

  void finish(Rank& own, StepId id) {
    --unfinished_;
    last_ = s4u::Engine::get_clock();
    for (const StepId next : own.plan.successors(id)) own.may_begin[next]->release();
  }

  static s4u::Mailbox* mailbox(int from, int to, std::uint32_t number) {
    return s4u::Mailbox::by_name(fmt::format("{} to {}, {}", from, to, number));
  }

  const simulate::Network& network_;
  simulate::BlockSizes sizes_;
  std::deque<Rank> ranks_;
  std::size_t unfinished_;
  Platform platform_;
  double last_ = 0;
  char nothing_ = 0;
};

}  // namespace

double replay(const simulate::SimulatedCall& simulated, const simulate::Network& network) {
  simulate::refuse_too_large_for_simgrid(simulated);
  return network.start * picosecond + Replay{simulated, network}.run();
}

}  // namespace tutti::cli::simgrid
