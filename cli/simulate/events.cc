#include "cli/simulate/events.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <queue>
#include <stdexcept>
#include <string>
#include <vector>

#include "algorithms/describe.h"
#include "cli/simulate/step_count.h"
#include "tutti/error.h"

namespace tutti::cli::simulate {
namespace {

using algorithms::Direction;
using algorithms::Plan;
using algorithms::StepId;
using algorithms::Verb;

using Number = std::uint32_t;  // of a step, with the steps of all ranks numbered together
constexpr Number none = ~Number{0};
constexpr double not_yet = -1;

/// A step with the data needed to time it; the plans of all ranks become one array of these.
struct Action {
  std::uint32_t bytes = 0;
  Number partner = none;  ///< the receive of a send
  Number next_on_lane = none;
  std::uint32_t successors = 0;  ///< where they begin
  std::uint32_t waits = 0;       ///< steps to complete, and one to be issued before it on its lane
  std::int32_t rank = 0;
  Verb verb{};
  double arrived = not_yet;  ///< of a receive: when all of its message had arrived; of a send: when its last byte
                             ///< reaches the place where its head is now
};

struct Script {
  std::vector<Action> actions;  ///< and one after the last
  std::vector<Number> successors;
  std::vector<Number> first;  ///< by rank: where its actions begin
  double messages = 0;
};

/// Where a rank's messages from each peer begin.
struct Inlet {
  int peer;
  Number first;
};

class Writer {
 public:
  explicit Writer(const SimulatedCall& simulated) : simulated_(simulated), sizes_(simulated) {}

  Script write() && {
    for (int rank = 0; rank < simulated_.ranks; ++rank) add(simulated_.plan(rank), rank);
    Action last;
    last.successors = static_cast<std::uint32_t>(script_.successors.size());
    script_.actions.push_back(last);
    for (const Outlet& outlet : outlets_) match(outlet);
    return std::move(script_);
  }

 private:
  struct Outlet {
    int from, to;
    Number first;
  };

  void add(const Plan& plan, int rank) {
    const auto base = static_cast<Number>(script_.actions.size());
    script_.first.push_back(base);
    for (StepId id = 0; id < plan.steps.size(); ++id) {
      const algorithms::Step& step = plan.steps[id];
      Action action;
      action.bytes = static_cast<std::uint32_t>(sizes_.of(plan, range_of(step)));
      if (plan.next_on_lane[id] != algorithms::no_step) action.next_on_lane = base + plan.next_on_lane[id];
      action.successors = static_cast<std::uint32_t>(script_.successors.size());
      action.waits = plan.waits_for[id];
      action.rank = rank;
      action.verb = step.verb;
      for (const StepId next : plan.successors(id)) script_.successors.push_back(base + next);
      script_.actions.push_back(action);
    }
    for (StepId id = 0; id < plan.steps.size(); ++id)
      if (plan.next_on_lane[id] != algorithms::no_step) ++script_.actions[base + plan.next_on_lane[id]].waits;
    inlets_.emplace_back();
    for (const algorithms::Lane& lane : plan.lanes)
      if (lane.direction == Direction::in)
        inlets_.back().push_back({lane.peer, base + lane.first});
      else
        outlets_.push_back({rank, lane.peer, base + lane.first});
    std::sort(inlets_.back().begin(), inlets_.back().end(),
              [](const Inlet& a, const Inlet& b) { return a.peer < b.peer; });
  }

  void match(const Outlet& outlet) {
    const std::vector<Inlet>& inlets = inlets_[static_cast<std::size_t>(outlet.to)];
    const auto inlet = std::lower_bound(inlets.begin(), inlets.end(), outlet.from,
                                        [](const Inlet& a, int peer) { return a.peer < peer; });
    Number receive = inlet == inlets.end() || inlet->peer != outlet.from ? none : inlet->first;
    for (Number send = outlet.first; send != none; send = script_.actions[send].next_on_lane) {
      if (receive == none)
        throw std::logic_error("simulate: the plans of ranks " + std::to_string(outlet.from) + " and " +
                               std::to_string(outlet.to) + " do not match.");
      script_.actions[send].partner = receive;
      receive = script_.actions[receive].next_on_lane;
      if (script_.actions[send].bytes > 0) ++script_.messages;
    }
  }

  const SimulatedCall& simulated_;
  BlockSizes sizes_;
  Script script_;
  std::vector<std::vector<Inlet>> inlets_;
  std::vector<Outlet> outlets_;
};

/// Kinds of events: a step is done; its message has arrived; its head is at the receiver's port; a send has left its
/// port; the head of its message is at a shared link.
enum class EventKind : std::uint8_t { done, there, head, left, leaf_out, leaf_in, host_in };

/// Sixteen bytes, since most of the time is spent on a heap of them.
struct Event {
  Event(double time_, EventKind kind, Number action)
      : time(time_), what(std::uint64_t{action} | std::uint64_t(kind) << 32) {}
  EventKind kind() const { return static_cast<EventKind>(what >> 32); }
  Number action() const { return static_cast<Number>(what); }
  bool operator>(const Event& other) const { return time != other.time ? time > other.time : what > other.what; }

  double time;
  std::uint64_t what;
};

/// Ports of a rank: one into its host, one to other hosts.
std::size_t port(int rank, Distance distance) {
  return 2 * static_cast<std::size_t>(rank) + (distance >= Distance::leaf ? 1 : 0);
}

class Machine {
 public:
  Machine(Script& script, const Network& network, int ranks, std::vector<SimulatedMessage>* log)
      : actions_(script.actions), successors_(script.successors), first_(script.first), network_(network), log_(log) {
    if (log_) logged_.resize(actions_.size());
    const auto groups = [&](int size) { return static_cast<std::size_t>((ranks + size - 1) / size); };
    for (auto* ports : {&out_, &in_}) ports->assign(2 * static_cast<std::size_t>(ranks), 0);
    arithmetic_.assign(static_cast<std::size_t>(ranks), 0);
    if (network.shared_host > 0)
      for (auto* links : {&host_out_, &host_in_}) links->assign(groups(network.host), 0);
    if (network.shared_leaf > 0)
      for (auto* links : {&leaf_out_, &leaf_in_}) links->assign(groups(network.leaf), 0);
    if (network.shared_host > 0 || network.shared_leaf > 0) queues_.resize(static_cast<std::size_t>(ranks));
  }

  /// Picoseconds until all steps are done; throws if some never are.
  double run() {
    const auto steps = static_cast<Number>(actions_.size() - 1);
    std::vector<Number> first;
    for (Number number = 0; number < steps; ++number)
      if (actions_[number].waits == 0) first.push_back(number);
    for (const Number number : first) issue(number);
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.time;
      happen(event.kind(), event.action());
    }
    if (completed_ != steps) throw std::logic_error("simulate: the plans do not get to their end.");
    return last_;
  }

 private:
  void happen(EventKind kind, Number number) {
    switch (kind) {
      case EventKind::done:
        return complete(number);
      case EventKind::there:
        return arrive(number);
      case EventKind::head:
        return enter(number);
      case EventKind::left:
        return leave(number);
      case EventKind::leaf_out:
        return go_out(number);
      case EventKind::leaf_in:
        return come_in(number);
      case EventKind::host_in:
        return come_to_host(number);
    }
  }

  void later(double time, EventKind kind, Number number) { events_.emplace(time, kind, number); }
  static double& at(std::vector<double>& servers, int number) { return servers[static_cast<std::size_t>(number)]; }

  /// A step has all that it waited for: a send takes its port, a receive may use its message. A message without bytes
  /// is not sent, and nobody waits for it.
  void issue(Number number) {
    for (; number != none; number = follower(number)) {
      Action& action = actions_[number];
      action.waits = issued;
      if (action.bytes == 0 && !algorithms::is_local(action.verb))
        skip(number);
      else if (action.verb == Verb::send)
        send(number);
      else if (algorithms::is_local(action.verb))
        compute(number, action.verb == Verb::copy ? network_.copying(action.bytes) : network_.reduction(action.bytes));
      else if (action.arrived != not_yet)
        later(now_, EventKind::there, number);
    }
  }

  /// The next step on the lane, if this one's issue was the last thing it waited for.
  Number follower(Number number) {
    const Number next = actions_[number].next_on_lane;
    return next != none && --actions_[next].waits == 0 ? next : none;
  }

  void skip(Number number) {
    later(now_, EventKind::done, number);
    if (actions_[number].verb == Verb::send) note(number, now_);
  }

  void send(Number number) {
    Action& action = actions_[number];
    actions_[action.partner].partner = number;
    const Distance distance = distance_of(action);
    if (distance >= Distance::leaf && !queues_.empty()) return queue(number);
    const MessageCost cost = network_.cost(distance, action.bytes);
    double& free = out_[port(action.rank, distance)];
    const double start = std::max(now_, free);
    free = start + cost.gap + cost.transfer;
    action.arrived = start + cost.transfer + cost.latency;
    later(start + cost.latency, EventKind::head, action.partner);
    later(start + cost.transfer, EventKind::done, number);
    note(number, start);
  }

  /// Records a message for callers that want them.
  void note(Number send, double start) {
    if (!log_) return;
    const Action& action = actions_[send];
    logged_[action.partner] = log_->size();
    log_->push_back({action.rank, actions_[action.partner].rank, send - first_[static_cast<std::size_t>(action.rank)],
                     start, start});
  }

  // Shared links. A message reaches such a link when the sender's port serves it, not before: messages that wait for
  // the port use nothing of the link. The link passes on bytes as fast as it can, in the order in which heads come; a
  // slow message leaves room for those behind it.

  Distance distance_of(const Action& send) const { return network_.distance(send.rank, actions_[send.partner].rank); }

  /// The first message of the queue takes the port.
  void queue(Number number) {
    std::deque<Number>& queue = queues_[static_cast<std::size_t>(actions_[number].rank)];
    queue.push_back(number);
    if (queue.size() == 1) begin(number);
  }

  void leave(Number number) {
    std::deque<Number>& queue = queues_[static_cast<std::size_t>(actions_[number].rank)];
    queue.pop_front();
    if (!queue.empty()) begin(queue.front());
  }

  void begin(Number number) {
    Action& action = actions_[number];
    action.arrived = now_ + network_.cost(distance_of(action), action.bytes).transfer;
    note(number, now_);
    const double head = pass(host_out_, action.rank / network_.host, network_.shared_host, action);
    at_once_or_later(head, EventKind::leaf_out, number);
  }

  void go_out(Number number) {
    Action& action = actions_[number];
    const Distance distance = distance_of(action);
    const MessageCost cost = network_.cost(distance, action.bytes);
    double head = now_;
    if (distance == Distance::far) head = pass(leaf_out_, action.rank / network_.leaf, network_.shared_leaf, action);
    later(action.arrived, EventKind::done, number);
    later(action.arrived + cost.gap, EventKind::left, number);
    action.arrived += cost.latency;
    later(head + cost.latency, distance == Distance::far ? EventKind::leaf_in : EventKind::host_in, number);
  }

  void come_in(Number number) {
    Action& action = actions_[number];
    const int leaf = actions_[action.partner].rank / network_.leaf;
    at_once_or_later(pass(leaf_in_, leaf, network_.shared_leaf, action), EventKind::host_in, number);
  }

  void come_to_host(Number number) {
    Action& action = actions_[number];
    const int host = actions_[action.partner].rank / network_.host;
    at_once_or_later(pass(host_in_, host, network_.shared_host, action), EventKind::head, action.partner);
  }

  /// When the head of a message that is here now goes on. Its last byte follows no sooner than the link allows.
  double pass(std::vector<double>& links, int number, double per_byte, Action& send) {
    if (links.empty()) return now_;
    double& free = at(links, number);
    const double head = std::max(now_, free);
    free = head + std::round(per_byte * static_cast<double>(send.bytes));
    send.arrived = std::max(send.arrived, free);
    return head;
  }

  void at_once_or_later(double time, EventKind kind, Number number) {
    if (time > now_)
      later(time, kind, number);
    else
      happen(kind, number);
  }

  // ---- Arrival

  /// The head of a message is at its receiver's port.
  void enter(Number number) {
    const Action& action = actions_[number];
    const Action& send = actions_[action.partner];
    const Distance distance = distance_of(send);
    const MessageCost cost = network_.cost(distance, action.bytes);
    double& free = in_[port(action.rank, distance)];
    const double end = std::max(send.arrived, free + cost.transfer);  // without a queue: at the rate of the sender
    free = end + cost.gap;
    later(end, EventKind::there, number);
  }

  /// A whole message has arrived. Its step uses it at once, or when it is issued.
  void arrive(Number number) {
    Action& action = actions_[number];
    if (log_ && action.arrived == not_yet) (*log_)[logged_[number]].end = now_;
    action.arrived = now_;
    if (action.waits != issued) return;
    if (action.verb == Verb::recv)
      complete(number);
    else
      compute(number, network_.reduction(action.bytes));
  }

  void compute(Number number, double cost) {
    double& free = at(arithmetic_, actions_[number].rank);
    free = std::max(now_, free) + cost;
    later(free, EventKind::done, number);
  }

  void complete(Number number) {
    ++completed_;
    last_ = std::max(last_, now_);
    for (Number at = actions_[number].successors; at < actions_[number + 1].successors; ++at)
      if (--actions_[successors_[at]].waits == 0) issue(successors_[at]);
  }

  static constexpr std::uint32_t issued = ~std::uint32_t{0};

  std::vector<Action>& actions_;
  const std::vector<Number>& successors_;
  const std::vector<Number>& first_;
  const Network& network_;
  std::vector<SimulatedMessage>* log_;
  std::vector<std::size_t> logged_;  ///< by receive
  std::vector<double> out_, in_;     ///< per port: when it is free
  std::vector<double> arithmetic_;   ///< per rank
  std::vector<double> host_out_, host_in_, leaf_out_,
      leaf_in_;                             ///< when they are free; or empty
  std::vector<std::deque<Number>> queues_;  ///< per rank: sends to other hosts, if these share links
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  double now_ = 0;
  double last_ = 0;
  Number completed_ = 0;
};

}  // namespace

std::optional<Result> run_events(const SimulatedCall& simulated, const Network& network,
                                 std::vector<SimulatedMessage>* messages) {
  if (simulated.bytes > 0xffffffffU)
    throw Error(ErrorCode::invalid_argument, "simulate: a vector has at most 4 GiB less a byte.");
  if (steps_of_all(simulated) > most_steps) return {};
  Script script = Writer{simulated}.write();
  const double time = Machine{script, network, simulated.ranks, messages}.run();
  return Result{(network.start + time) * 1e-12, script.messages, "events"};
}

}  // namespace tutti::cli::simulate
