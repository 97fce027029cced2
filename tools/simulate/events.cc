#include "tools/simulate/events.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <queue>
#include <stdexcept>
#include <string>
#include <vector>

#include "algorithms/describe.h"
#include "tutti/error.h"

namespace tutti::tools::simulate {
namespace {

using algorithms::Direction;
using algorithms::Plan;
using algorithms::StepId;
using algorithms::Verb;

using Number = std::uint32_t;  // of a step, when those of all ranks are numbered
constexpr Number none = ~Number{0};
constexpr double not_yet = -1;

/// A step with what else it takes to time it; plans of all ranks become one array of these.
struct Action {
  std::uint32_t bytes = 0;
  Number partner = none;  ///< the receive of a send
  Number next_on_lane = none;
  std::uint32_t successors = 0;  ///< where they begin
  std::uint32_t waits = 0;       ///< steps to complete, and one to be issued before it on its lane
  std::int32_t rank = 0;
  Verb verb{};
  double arrived = not_yet;  ///< of a receive: when its message was all there
};

struct Script {
  std::vector<Action> actions;  ///< and one after the last
  std::vector<Number> successors;
  double messages = 0;
};

/// Where a rank's messages from each peer begin.
struct Inlet {
  int peer;
  Number first;
};

class Writer {
 public:
  explicit Writer(const Task& task) : task_(task), sizes_(task) {}

  Script write() && {
    for (int rank = 0; rank < task_.ranks; ++rank) add(task_.plan(rank), rank);
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
      ++script_.messages;
    }
  }

  const Task& task_;
  BlockSizes sizes_;
  Script script_;
  std::vector<std::vector<Inlet>> inlets_;
  std::vector<Outlet> outlets_;
};

enum class Kind : std::uint8_t { done, there, head };

/// Sixteen bytes, since a heap of them is what most of the time is spent on.
struct Event {
  Event(double time_, Kind kind, Number action)
      : time(time_), what(std::uint64_t{action} | std::uint64_t(kind) << 32) {}
  Kind kind() const { return static_cast<Kind>(what >> 32); }
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
  Machine(Script& script, const Network& network, int ranks)
      : actions_(script.actions), successors_(script.successors), network_(network) {
    const auto groups = [&](int size) { return static_cast<std::size_t>((ranks + size - 1) / size); };
    for (auto* ports : {&out_, &in_}) ports->assign(2 * static_cast<std::size_t>(ranks), 0);
    arithmetic_.assign(static_cast<std::size_t>(ranks), 0);
    for (auto* links : {&host_out_, &host_in_}) links->assign(groups(network.host), 0);
    for (auto* links : {&leaf_out_, &leaf_in_}) links->assign(groups(network.leaf), 0);
  }

  /// Picoseconds until all is done; throws if something never is.
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
      if (event.kind() == Kind::head) enter(event.action());
      if (event.kind() == Kind::there) arrive(event.action());
      if (event.kind() == Kind::done) complete(event.action());
    }
    if (completed_ != steps) throw std::logic_error("simulate: the plans do not get to their end.");
    return last_;
  }

 private:
  void later(double time, Kind kind, Number number) { events_.emplace(time, kind, number); }
  static double& at(std::vector<double>& servers, int number) { return servers[static_cast<std::size_t>(number)]; }

  /// All that was waited for is there: a send takes its port, a receive may use its message.
  void issue(Number number) {
    for (; number != none; number = follower(number)) {
      Action& action = actions_[number];
      action.waits = issued;
      if (action.verb == Verb::send)
        send(number);
      else if (algorithms::is_local(action.verb))
        compute(number, action.verb == Verb::copy ? network_.copying(action.bytes) : network_.reduction(action.bytes));
      else if (action.arrived != not_yet)
        later(now_, Kind::there, number);
    }
  }

  /// The next one on the lane, if this one's issue was the last that it waited for.
  Number follower(Number number) {
    const Number next = actions_[number].next_on_lane;
    return next != none && --actions_[next].waits == 0 ? next : none;
  }

  void send(Number number) {
    const Action& action = actions_[number];
    const int to = actions_[action.partner].rank;
    const Distance distance = network_.distance(action.rank, to);
    const MessageCost cost = network_.cost(distance, action.bytes);
    double& free = out_[port(action.rank, distance)];
    double start = std::max(now_, free);
    const Shared shared = shared_links(distance, action.bytes);
    if (shared.host > 0) start = std::max(start, at(host_out_, action.rank / network_.host));
    if (shared.leaf > 0) start = std::max(start, at(leaf_out_, action.rank / network_.leaf));
    if (shared.host > 0) at(host_out_, action.rank / network_.host) = start + shared.host;
    if (shared.leaf > 0) at(leaf_out_, action.rank / network_.leaf) = start + shared.leaf;
    const double transfer = std::max({cost.transfer, shared.host, shared.leaf});
    free = start + cost.gap + transfer;
    later(start + cost.latency, Kind::head, action.partner);
    actions_[action.partner].partner = number;
    later(start + transfer, Kind::done, number);
  }

  struct Shared {
    double host = 0;
    double leaf = 0;
  };
  Shared shared_links(Distance distance, std::uint32_t bytes) const {
    const auto whole = [&](double per_byte) { return std::round(per_byte * static_cast<double>(bytes)); };
    return {distance >= Distance::leaf ? whole(network_.shared_host) : 0,
            distance == Distance::far ? whole(network_.shared_leaf) : 0};
  }

  /// The head of a message is at its receiver's port.
  void enter(Number number) {
    const Action& action = actions_[number];
    const Distance distance = network_.distance(actions_[action.partner].rank, action.rank);
    const MessageCost cost = network_.cost(distance, action.bytes);
    const Shared shared = shared_links(distance, action.bytes);
    double& free = in_[port(action.rank, distance)];
    double start = std::max(now_, free);
    if (shared.host > 0) start = std::max(start, at(host_in_, action.rank / network_.host));
    if (shared.leaf > 0) start = std::max(start, at(leaf_in_, action.rank / network_.leaf));
    if (shared.host > 0) at(host_in_, action.rank / network_.host) = start + shared.host;
    if (shared.leaf > 0) at(leaf_in_, action.rank / network_.leaf) = start + shared.leaf;
    const double transfer = std::max({cost.transfer, shared.host, shared.leaf});
    free = start + transfer + cost.gap;
    later(start + transfer, Kind::there, number);
  }

  /// All of a message is there; its step uses it at once, or when it is issued.
  void arrive(Number number) {
    Action& action = actions_[number];
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
    later(free, Kind::done, number);
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
  const Network& network_;
  std::vector<double> out_, in_;    ///< per port: when it is free
  std::vector<double> arithmetic_;  ///< per rank
  std::vector<double> host_out_, host_in_, leaf_out_, leaf_in_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  double now_ = 0;
  double last_ = 0;
  Number completed_ = 0;
};

/// From the plans of a few ranks, the root among them.
double steps_of_all(const Task& task) {
  std::size_t most = 0;
  for (const int rank : {task.ranks / 3, task.ranks - 1}) most = std::max(most, task.plan(rank).steps.size());
  return static_cast<double>(most) * task.ranks + static_cast<double>(task.plan(task.root).steps.size());
}

}  // namespace

std::optional<Result> run_events(const Task& task, const Network& network) {
  if (task.bytes > 0xffffffffU)
    throw Error(ErrorCode::invalid_argument, "simulate: a vector has at most 4 GiB less a byte.");
  if (steps_of_all(task) > most_steps) return {};
  Script script = Writer{task}.write();
  const double messages = script.messages;
  const double time = Machine{script, network, task.ranks}.run();
  return Result{(network.start + time) * 1e-12, messages, "events"};
}

}  // namespace tutti::tools::simulate
