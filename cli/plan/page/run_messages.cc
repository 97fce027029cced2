#include "cli/plan/page/run_messages.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <utility>

#include "algorithms/describe.h"
#include "algorithms/row_program.h"
#include "algorithms/run_in_order.h"
#include "lib/base/index.h"

namespace tutti::cli {
namespace {

using algorithms::Plan;
using algorithms::Step;
using algorithms::StepId;
using Ends = std::pair<int, int>;                                        // from and to
using BySteps = std::vector<std::vector<std::optional<TracedMessage>>>;  // by rank and step: what it sends

/// All rounds between two ranks, divided among the messages that the plan has between them, which may be more, or
/// nothing.
std::optional<TracedMessage> over_board(const std::vector<TracedMessage>& rounds, std::size_t sends, std::size_t send) {
  if (rounds.empty()) return std::nullopt;
  const std::size_t first = rounds.size() * send / sends;
  const std::size_t last = std::max(first + 1, rounds.size() * (send + 1) / sends);
  TracedMessage whole = rounds[first];
  whole.received = rounds[last - 1].received;
  return whole;
}

/// In a row all ranks read the sum of the last one, where the plan passes it on from one to the next.
void add_readings_of_sums(std::map<Ends, std::vector<TracedMessage>>& rounds, const std::vector<Plan>& plans,
                          const std::vector<int>& members) {
  const auto made = algorithms::lower_to_row(plans);
  if (!made.program) return;
  const std::vector<int>& row = made.program->row;
  const auto member = [&members](int place) { return members[static_cast<std::size_t>(place)]; };
  for (std::size_t i = row.size() - 1; i > 0; --i) {
    const auto sums = rounds.find({member(row.back()), member(row[i - 1])});
    if (sums != rounds.end()) rounds.try_emplace({member(row[i]), member(row[i - 1])}, sums->second);
  }
}

/// What the trace has, or nothing if a message of some bytes is missing.
class Finder {
 public:
  Finder(const TracedCall& call, const simulate::SimulatedCall& simulated, const std::vector<Plan>& plans)
      : call_(call), sizes_(simulated), members_(call.members()) {
    for (const TracedMessage& message : call.messages) {
      TracedMessage& whole = by_step_.try_emplace({message.from, message.step}, message).first->second;
      whole.given = std::min(whole.given, message.given);
      whole.received = std::max(whole.received, message.received);
    }
    for (const TracedMessage& reading : call.readings) rounds_[{reading.from, reading.to}].push_back(reading);
    if (!rounds_.empty()) add_readings_of_sums(rounds_, plans, members_);
  }

  /// Adds those of one rank. False: one is missing.
  bool find(const Plan& plan, BySteps& messages) {
    std::map<int, std::size_t> sends, sent;  // by peer
    for (const Step& step : plan.steps)
      if (algorithms::sends(step.verb)) ++sends[step.peer];
    messages.emplace_back(plan.steps.size());
    for (StepId id = 0; id < plan.steps.size(); ++id) {
      const Step& step = plan.steps[id];
      if (!algorithms::sends(step.verb)) continue;
      const Ends ends{members_[at(plan.shape.rank)], members_[at(step.peer)]};
      messages.back()[id] =
          call_.readings.empty() ? on_link(ends, id) : over_board(rounds_[ends], sends[step.peer], sent[step.peer]++);
      if (!messages.back()[id] && sizes_.of(plan, simulate::range_of(step)) > 0) return false;
    }
    return true;
  }

 private:
  std::optional<TracedMessage> on_link(const Ends& ends, StepId id) const {
    const auto found = by_step_.find({ends.first, id});
    return found != by_step_.end() && found->second.to == ends.second ? std::optional{found->second} : std::nullopt;
  }

  const TracedCall& call_;
  const simulate::BlockSizes sizes_;
  const std::vector<int> members_;
  std::map<std::pair<int, StepId>, TracedMessage> by_step_;
  std::map<Ends, std::vector<TracedMessage>> rounds_;
};

/// Runs the plans with the times of the messages, and gives those that nobody sent the time at which all was done that
/// they wait for.
void add_empty(BySteps& messages, const TracedCall& call, const std::vector<Plan>& plans) {
  const std::vector<int> members = call.members();
  std::vector<std::vector<std::int64_t>> ready;  // by rank and step: when it could begin
  for (const Plan& plan : plans)
    ready.emplace_back(plan.steps.size(), call.ranks.at(members[at(plan.shape.rank)]).begin);
  std::map<Ends, std::deque<std::int64_t>> received;
  const auto run = [&](int rank, const Step& step) {
    const Plan& plan = plans[at(rank)];
    const auto id = static_cast<StepId>(&step - plan.steps.data());
    std::int64_t done = ready[at(rank)][id];
    if (algorithms::receives(step.verb)) {
      std::deque<std::int64_t>& queue = received[{step.peer, rank}];
      done = std::max(done, queue.front());
      queue.pop_front();
    }
    if (algorithms::sends(step.verb)) {
      std::optional<TracedMessage>& message = messages[at(rank)][id];
      if (!message)
        message = TracedMessage{
            .from = members[at(rank)], .to = members[at(step.peer)], .step = id, .given = done, .received = done};
      done = std::max(done, message->given);
      received[{rank, step.peer}].push_back(message->received);
    }
    for (const StepId next : plan.successors(id)) ready[at(rank)][next] = std::max(ready[at(rank)][next], done);
    return true;
  };
  algorithms::run_in_order(
      plans,
      [&](int rank, const Step& step) {
        return !algorithms::receives(step.verb) || !received[{step.peer, rank}].empty();
      },
      run);
}

}  // namespace

std::optional<std::vector<TracedMessage>> messages_of(const TracedCall& call, const simulate::SimulatedCall& simulated,
                                                      const std::vector<Plan>& plans) {
  if (!call.is_complete) return std::nullopt;
  Finder finder{call, simulated, plans};
  BySteps found;
  for (const Plan& plan : plans)
    if (!finder.find(plan, found)) return std::nullopt;
  add_empty(found, call, plans);
  std::vector<TracedMessage> messages;
  for (std::size_t rank = 0; rank < plans.size(); ++rank)
    for (StepId id = 0; id < plans[rank].steps.size(); ++id)
      if (algorithms::sends(plans[rank].steps[id].verb)) messages.push_back(*found[rank][id]);
  return messages;
}

}  // namespace tutti::cli
