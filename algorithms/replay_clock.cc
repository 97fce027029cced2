// Discrete events: completed steps make others ready; a message leaves as soon as both of its ends have a free port. If
// several messages could leave, the one that has waited longest goes first, then the one that its plan issues first,
// then that of the lowest rank. So the same plans always run in the same way.

#include "algorithms/replay_clock.h"

#include <algorithm>
#include <utility>

namespace tutti::algorithms {

using checking::index;
using checking::RankStep;

Clock::Clock(const checking::World& world, const checking::Run& run, const Cost& cost)
    : world_(world),
      run_(run),
      cost_(cost),
      states_(world.steps()),
      offers_(index(world.ranks)),
      out_free_(index(world.ranks), 0),
      in_free_(index(world.ranks), 0),
      cpu_free_(index(world.ranks), 0) {
  for (int rank = 0; rank < world.ranks; ++rank) {
    const Plan& plan = world.plans[index(rank)];
    times_.emplace_back(plan.steps.size());
    for (StepId step = 0; step < plan.steps.size(); ++step) state({rank, step}).waits = plan.waits_for[step];
    for (const Lane& lane : plan.lanes) state({rank, lane.first}).has_turn = true;
  }
}

void Clock::run() {
  for (int rank = 0; rank < world_.ranks; ++rank)
    for (StepId step = 0; step < world_.plans[index(rank)].steps.size(); ++step)
      if (world_.plans[index(rank)].waits_for[step] == 0) ready({rank, step});
  start_messages();
  while (!events_.empty()) {
    now_ = events_.top().at;
    while (!events_.empty() && events_.top().at == now_) {
      const RankStep at = events_.top().step;
      events_.pop();
      happen(at);
    }
    start_messages();
  }
}

RankStep Clock::partner(RankStep at) const {
  const std::uint32_t number = run_.partner[world_.number(at.rank, at.step)];
  const int rank = world_.step(at.rank, at.step).peer;
  return {rank, number - world_.base[index(rank)]};
}

/// All steps of its own rank that the step waits for have completed.
void Clock::ready(RankStep at) {
  time(at).ready = now_;
  const Verb verb = world_.step(at.rank, at.step).verb;
  if (is_local(verb)) return compute(at);
  if (sends(verb)) return offer(at);
  receive(at);
}

/// The step before it on its lane has been issued, or, for receives, has got its message.
void Clock::give_turn(RankStep at) {
  state(at).has_turn = true;
  if (sends(world_.step(at.rank, at.step).verb))
    offer(at);
  else
    receive(at);
}

void Clock::offer(RankStep at) {
  if (state(at).waits > 0 || !state(at).has_turn) return;
  offers_[index(at.rank)].insert({time(at).ready, at.step, at.rank, partner(at).step});
  offering_.insert(at.rank);
}

void Clock::receive(RankStep at) {
  const State& own = state(at);
  if (own.waits > 0 || !own.has_turn || !own.arrived) return;
  compute(at);
  const StepId next = world_.plans[index(at.rank)].next_on_lane[at.step];
  if (next != no_step) give_turn({at.rank, next});
}

/// Reductions of a rank are done one after the other.
void Clock::compute(RankStep at) {
  const Step& step = world_.step(at.rank, at.step);
  const Ticks effort = combines(step.verb) ? cost_.reduced * step.dst.count : 0;
  Ticks& free = cpu_free_[index(at.rank)];
  time(at).begin = effort > 0 ? std::max(now_, free) : now_;
  if (effort > 0) free = time(at).begin + effort;
  events_.push({time(at).begin + effort, order_++, at});
}

/// A step completes; that of a send is also the arrival of its message.
void Clock::happen(RankStep at) {
  if (sends(world_.step(at.rank, at.step).verb)) {
    const RankStep other = partner(at);
    state(other).arrived = true;
    state(other).message = state(at).message;
    complete(at);
    receive(other);
    return;
  }
  effects_.push_back({now_, at});
  if (receives(world_.step(at.rank, at.step).verb)) messages_[state(at).message].done = now_;
  complete(at);
}

void Clock::complete(RankStep at) {
  time(at).end = now_;
  for (const StepId next : world_.plans[index(at.rank)].successors(at.step))
    if (--state({at.rank, next}).waits == 0) ready({at.rank, next});
}

void Clock::start_messages() {
  // The best offer of every rank whose port is free; the next best if the port at the other end is busy.
  using Cursor = std::pair<Offer, std::set<Offer>::iterator>;
  const auto later = [](const Cursor& a, const Cursor& b) {
    const Offer& x = a.first;
    const Offer& y = b.first;
    return std::tie(x.ready, x.recv, x.step, x.rank) > std::tie(y.ready, y.recv, y.step, y.rank);
  };
  std::priority_queue<Cursor, std::vector<Cursor>, decltype(later)> queue{later};
  for (const int rank : offering_)
    if (out_free_[index(rank)] <= now_) queue.push({*offers_[index(rank)].begin(), offers_[index(rank)].begin()});
  while (!queue.empty()) {
    auto [offer, place] = queue.top();
    queue.pop();
    std::set<Offer>& offers = offers_[index(offer.rank)];
    if (in_free_[index(world_.step(offer.rank, offer.step).peer)] > now_) {
      if (++place != offers.end()) queue.push({*place, place});
      continue;
    }
    offers.erase(place);
    if (offers.empty()) offering_.erase(offer.rank);
    start_message(offer);
  }
}

void Clock::start_message(const Offer& offer) {
  const RankStep at{offer.rank, offer.step};
  const RankStep to = partner(at);
  const Blocks& sent = world_.step(at.rank, at.step).left;
  const Ticks end = now_ + cost_.message + cost_.block * sent.count;
  state(at).message = static_cast<std::uint32_t>(messages_.size());
  messages_.push_back(
      {at.rank, to.rank, at.step, to.step, sent, world_.step(to.rank, to.step).dst, {}, now_, end, end});
  time(at).begin = now_;
  out_free_[index(at.rank)] = end;
  in_free_[index(to.rank)] = end;
  effects_.push_back({now_, at});
  events_.push({end, order_++, at});
  const StepId next = world_.plans[index(at.rank)].next_on_lane[at.step];
  if (next != no_step) give_turn({at.rank, next});
}

}  // namespace tutti::algorithms
