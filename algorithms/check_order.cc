// Do the messages of all ranks fit together, and does every one of them get through?
//
// A link keeps order, so the k-th send on it meets the k-th receive. The plans together then form a set of events. Each
// happens once, when all that it needs has happened:
//   a send     waits for the steps before it, the send before it on its lane, and a free slot: the receive k - K;
//   a receive  waits for the steps before it, the receive before it on its lane, and its message;
//   a local step waits for the steps before it.
// Issue and completion need not be distinguished: only the next step on the lane waits for an issue, and the link keeps
// their order anyway.
//
// Such a system has no choices: an event that is possible stays possible, so every order of events ends in the same
// state. One run with one slot per link therefore shows whether one slot is enough. If that run stops early, every run
// with one slot does. We then grant one more slot and continue, since everything done so far is also valid with more
// slots. If no link lacks a slot, it is a deadlock.
//
// A message that is larger than all of a link's slots is different: its send completes only when its receive takes it,
// so the two are one event. A second run shows whether the plans get through in this way as well.

#include <algorithm>
#include <string>
#include <vector>

#include "algorithms/check_world.h"

namespace tutti::algorithms::checking {
namespace {

struct Link {
  int sender;
  int receiver;
  StepId next_send = no_step;  // that has not completed
  StepId next_recv = no_step;
  int in_flight = 0;
  bool queued = false;
};

struct Links {
  std::vector<Link> all;
  std::vector<std::uint32_t> at;  // per sender and receiver: index into `all`, or none
};

Links find_links(const World& world) {
  Links links;
  links.at.assign(index(world.ranks) * index(world.ranks), none);
  const auto open = [&](int sender, int receiver) -> Link& {
    std::uint32_t& at = links.at[index(sender) * index(world.ranks) + index(receiver)];
    if (at == none) {
      at = static_cast<std::uint32_t>(links.all.size());
      links.all.push_back({sender, receiver});
    }
    return links.all[at];
  };
  for (int rank = 0; rank < world.ranks; ++rank)
    for (const Lane& lane : world.plans[index(rank)].lanes) {
      if (lane.direction == Direction::out)
        open(rank, lane.peer).next_send = lane.first;
      else
        open(lane.peer, rank).next_recv = lane.first;
    }
  return links;
}

/// The first block, counted from the beginning of the message, whose size differs between the two ends, or -1.
int first_difference(const World& world, const Link& link, const Blocks& sent, const Blocks& received) {
  for (int i = 0; i < sent.count; ++i)
    if (world.size_class(link.sender, sent.buffer, sent.first + i) !=
        world.size_class(link.receiver, received.buffer, received.first + i))
      return i;
  return -1;
}

/// Compares the two ends of one message.
void check_message(const World& world, const Link& link, Problems& report) {
  const Blocks& sent = world.step(link.sender, link.next_send).left;
  const Blocks& received = world.step(link.receiver, link.next_recv).dst;
  const auto differ = [&](const std::string& what, const std::string& expected) {
    report.problem(
        link.sender, link.next_send,
        "sends " + what + " and meets " + where(world, link.receiver, link.next_recv) + ", which expects " + expected);
  };
  if (sent.count != received.count)
    return differ(std::to_string(sent.count) + " blocks", std::to_string(received.count));
  const int i = first_difference(world, link, sent, received);
  if (i >= 0)
    differ(to_string({sent.buffer, sent.first + i, 1}),
           to_string({received.buffer, received.first + i, 1}) + ", a block of another size");
}

/// Runs all plans at once.
class Progress {
 public:
  Progress(const World& world, Run& run) : world_(world), run_(run), links_(find_links(world)) {
    waits_.reserve(world.steps());
    for (const Plan& plan : world.plans) waits_.insert(waits_.end(), plan.waits_for.begin(), plan.waits_for.end());
    run_.order.reserve(world.steps());
  }

  /// True if every step completes.
  bool run_to_the_end() {
    run_.slots = links_.all.empty() ? 0 : 1;
    start();
    while (run_.order.size() < world_.steps() && grant_slot()) drain();
    return run_.order.size() == world_.steps();
  }

  /// The same with links that hold no message.
  bool run_without_slots() {
    start();
    return run_.order.size() == world_.steps();
  }

  void explain(Problems& report) const {
    std::vector<bool> done(world_.steps(), false);
    for (const RankStep& at : run_.order) done[world_.number(at.rank, at.step)] = true;
    for (const Link& link : links_.all) {
      if (report.full()) return;
      if (link.next_recv != no_step && waits_[world_.number(link.receiver, link.next_recv)] == 0)
        report.problem(link.receiver, link.next_recv,
                       "deadlock: waits forever for " + where(world_, link.sender, link.next_send) + ", which " +
                           reason(link.sender, link.next_send, done));
    }
    if (report.clean()) explain_cycle(report, done);
  }

 private:
  void start() {
    for (int rank = 0; rank < world_.ranks; ++rank)
      for (StepId step = 0; step < world_.plans[index(rank)].steps.size(); ++step)
        if (waits_[world_.number(rank, step)] == 0) ready({rank, step});
    drain();
  }

  void ready(RankStep at) {
    if (is_local(world_.step(at.rank, at.step).verb)) {
      local_.push_back(at);
    } else {
      queue_link(at);
    }
  }

  void queue_link(RankStep at) {
    const Step& step = world_.step(at.rank, at.step);
    const bool out = sends(step.verb);
    const int sender = out ? at.rank : step.peer;
    const int receiver = out ? step.peer : at.rank;
    const std::uint32_t link = links_.at[index(sender) * index(world_.ranks) + index(receiver)];
    if (links_.all[link].queued) return;
    links_.all[link].queued = true;
    active_.push_back(link);
  }

  void drain() {
    while (!local_.empty() || !active_.empty()) {
      if (!local_.empty()) {
        const RankStep at = local_.back();
        local_.pop_back();
        complete(at);
      } else {
        Link& link = links_.all[active_.back()];
        active_.pop_back();
        link.queued = false;
        advance(link);
      }
    }
  }

  void advance(Link& link) {
    bool moved = true;
    while (moved) {
      moved = false;
      const bool takes_at_once =
          run_.slots == 0 && link.next_recv != no_step && waits_[world_.number(link.receiver, link.next_recv)] == 0;
      if (can_send(link) && (link.in_flight < run_.slots || takes_at_once)) {
        ++link.in_flight;
        link.next_send = pass({link.sender, link.next_send});
        moved = true;
      }
      if (link.in_flight > 0 && waits_[world_.number(link.receiver, link.next_recv)] == 0) {
        --link.in_flight;
        link.next_recv = pass({link.receiver, link.next_recv});
        moved = true;
      }
    }
  }

  bool can_send(const Link& link) const {
    return link.next_send != no_step && waits_[world_.number(link.sender, link.next_send)] == 0;
  }

  /// Completes a step on a lane and returns the next one there.
  StepId pass(RankStep at) {
    complete(at);
    return world_.plans[index(at.rank)].next_on_lane[at.step];
  }

  void complete(RankStep at) {
    run_.order.push_back(at);
    for (const StepId next : world_.plans[index(at.rank)].successors(at.step))
      if (--waits_[world_.number(at.rank, next)] == 0) ready({at.rank, next});
  }

  /// False if no link lacks a slot.
  bool grant_slot() {
    for (const Link& link : links_.all)
      if (can_send(link)) queue_link({link.sender, link.next_send});
    if (active_.empty()) return false;
    ++run_.slots;
    return true;
  }

  std::string reason(int rank, StepId step, const std::vector<bool>& done) const {
    const Plan& plan = world_.plans[index(rank)];
    for (StepId other = 0; other < plan.steps.size(); ++other)
      if (!done[world_.number(rank, other)])
        for (const StepId next : plan.successors(other))
          if (next == step) return "waits for " + step_text(world_, rank, other);
    return "waits for its turn on the lane";
  }

  /// No rank waits for a message, so steps of one rank wait for each other.
  void explain_cycle(Problems& report, const std::vector<bool>& done) const {
    for (int rank = 0; rank < world_.ranks && !report.full(); ++rank) {
      const std::size_t steps = world_.plans[index(rank)].steps.size();
      for (StepId step = 0; step < steps; ++step)
        if (!done[world_.number(rank, step)]) {
          report.problem(rank, step, "deadlock: never runs, it " + reason(rank, step, done));
          break;
        }
    }
  }

  const World& world_;
  Run& run_;
  Links links_;
  std::vector<std::uint32_t> waits_;  // per step, by number
  std::vector<std::uint32_t> active_;
  std::vector<RankStep> local_;
};

}  // namespace

void check_matching(const World& world, Run& run, Problems& report) {
  run.partner.assign(world.steps(), none);
  for (Link& link : find_links(world).all) {
    while (link.next_send != no_step && link.next_recv != no_step && !report.full()) {
      check_message(world, link, report);
      run.partner[world.number(link.sender, link.next_send)] = world.number(link.receiver, link.next_recv);
      run.partner[world.number(link.receiver, link.next_recv)] = world.number(link.sender, link.next_send);
      link.next_send = world.plans[index(link.sender)].next_on_lane[link.next_send];
      link.next_recv = world.plans[index(link.receiver)].next_on_lane[link.next_recv];
    }
    if (report.full()) return;
    if (link.next_send != no_step)
      report.problem(link.sender, link.next_send,
                     "sends a message that rank " + std::to_string(link.receiver) + " never receives");
    if (link.next_recv != no_step)
      report.problem(link.receiver, link.next_recv,
                     "waits for a message that rank " + std::to_string(link.sender) + " never sends");
  }
}

void check_progress(const World& world, Run& run, Problems& report) {
  Progress progress(world, run);
  if (!progress.run_to_the_end()) progress.explain(report);
}

bool needs_room(const World& world) {
  Run run;
  return world.collective != Collective::barrier && !Progress{world, run}.run_without_slots();
}

}  // namespace tutti::algorithms::checking
