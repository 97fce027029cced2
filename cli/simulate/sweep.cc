// A max-plus sweep: the times of one step at all ranks are a row; a row is the maximum of earlier rows plus costs.
//
// Rows are kept in a window that reaches as far back as messages and near dependencies do. Some dependencies reach back
// through half of the plan. In a ring, for example, the step that overwrites a part waits until the part has left, a
// whole trip before. For older rows only the latest time is kept. It must be before all times of the row that waits for
// it, so that it cannot matter.

#include "cli/simulate/sweep.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "algorithms/describe.h"
#include "cli/simulate/symmetry.h"
#include "lib/base/index.h"

namespace tutti::cli::simulate {
namespace {

using algorithms::Verb;
using Row = std::vector<double>;

/// Costs of messages of one size to the ranks at that distance, by rank.
struct Costs {
  Row latency, gap, transfer;
};

/// Parts from `begin` to the next one's `begin` have `bytes` in some piece.
struct Run {
  int begin;
  std::size_t bytes;
};

class CostTable {
 public:
  CostTable(const SimulatedCall& simulated, const Network& network)
      : simulated_(simulated), network_(network), sizes_(simulated) {}

  const std::vector<Run>& runs(const Beat& beat) {
    std::vector<Run>& found = runs_[{beat.piece, beat.count}];
    if (!found.empty()) return found;
    for (int part = 0; part < simulated_.ranks; ++part) {
      const std::size_t bytes = sizes_.of(part * simulated_.pipeline() + beat.piece, beat.count);
      if (found.empty() || found.back().bytes != bytes) found.push_back({part, bytes});
    }
    return found;
  }

  const Costs& costs(int ahead, std::size_t bytes) {
    Costs& found = costs_[{ahead, bytes}];
    if (!found.latency.empty()) return found;
    for (int rank = 0; rank < simulated_.ranks; ++rank) {
      const Distance distance = network_.distance(rank, (rank + ahead) % simulated_.ranks);
      const MessageCost cost = network_.cost(distance, bytes);
      double transfer = cost.transfer;
      const auto whole = [&](double per_byte) { return std::round(per_byte * static_cast<double>(bytes)); };
      if (distance >= Distance::leaf) transfer = std::max(transfer, whole(network_.shared_host));
      if (distance == Distance::far) transfer = std::max(transfer, whole(network_.shared_leaf));
      found.latency.push_back(cost.latency);
      found.gap.push_back(cost.gap);
      found.transfer.push_back(transfer);
    }
    return found;
  }

 private:
  const SimulatedCall& simulated_;
  const Network& network_;
  BlockSizes sizes_;
  std::map<std::pair<int, int>, std::vector<Run>> runs_;
  std::map<std::pair<int, std::size_t>, Costs> costs_;
};

/// Whether each rank sends to one rank only and receives from one rank only, so that messages never compete for a port.
bool has_two_neighbours(const Rotation& rotation) {
  int to = 0, from = 0;
  for (std::size_t i = 0; i + 1 < rotation.beats.size(); ++i) {
    const Beat& beat = rotation.beats[i];
    if (algorithms::is_local(beat.verb)) continue;
    int& peer = algorithms::sends(beat.verb) ? to : from;
    if (peer != 0 && peer != beat.ahead) return false;
    peer = beat.ahead;
  }
  return true;
}

/// Whether a shared link serves only one rank in each direction, and so is like a private one.
bool links_are_private(const Rotation& rotation, const SimulatedCall& simulated, const Network& network) {
  if (network.shared_host == 0 && network.shared_leaf == 0) return true;
  std::vector<bool> seen(at(simulated.ranks));
  for (const int size : {network.shared_host > 0 ? network.host : 0, network.shared_leaf > 0 ? network.leaf : 0}) {
    if (size == 0) continue;
    std::fill(seen.begin(), seen.end(), false);
    std::map<int, int> user;  // of a group: the rank that leaves it, and with negative keys the one that is entered
    for (const Beat& beat : rotation.beats) {
      if (!algorithms::sends(beat.verb) || seen[at(beat.ahead)]) continue;
      seen[at(beat.ahead)] = true;
      for (int from = 0; from < simulated.ranks; ++from) {
        const int to = (from + beat.ahead) % simulated.ranks;
        if (from / size == to / size) continue;
        if (user.emplace(from / size, from).first->second != from) return false;
        if (user.emplace(-1 - to / size, to).first->second != to) return false;
      }
    }
  }
  return true;
}

/// Ranks [from, to).
struct Range {
  int from, to;
};

// Most of the time is spent in the following loops, which the compiler vectorises.

/// `order`: issue time of the previous step on the lane; later steps may not be issued before it.
void take_port(Range range, const double* __restrict ready, const Costs& costs, double* __restrict order,
               double* __restrict port, double* __restrict head, double* __restrict done) {
  const double* __restrict latency = costs.latency.data();
  const double* __restrict transfer = costs.transfer.data();
  const double* __restrict gap = costs.gap.data();
  for (std::size_t r = at(range.from); r < at(range.to); ++r) {
    order[r] = std::max(ready[r], order[r]);
    const double start = std::max(order[r], port[r]);
    head[r] = start + latency[r];
    done[r] = start + transfer[r];
    port[r] = done[r] + gap[r];
  }
}

/// The same for messages without bytes, which are not sent.
void skip_port(Range range, const double* __restrict ready, double* __restrict order, double* __restrict done) {
  for (std::size_t r = at(range.from); r < at(range.to); ++r) done[r] = order[r] = std::max(ready[r], order[r]);
}

/// `head` begins with the head of the first rank in the range.
std::int64_t arrive(Range range, const double* __restrict head, const Costs& costs, double* __restrict order,
                    double* __restrict port, double* __restrict done) {
  const double* __restrict transfer = costs.transfer.data();
  const double* __restrict gap = costs.gap.data();
  const std::size_t from = at(range.from);
  std::int64_t late = 0;
  for (std::size_t r = from; r < at(range.to); ++r) {
    const double now = head[r - from];
    late |= static_cast<std::int64_t>(now < order[r]);
    order[r] = now;
    done[r] = std::max(now, port[r]) + transfer[r];
    port[r] = done[r] + gap[r];
  }
  return late;
}

double largest(const Row& row) {
  double most[4] = {0, 0, 0, 0};
  for (std::size_t r = 0; r < row.size(); ++r) most[r % 4] = std::max(most[r % 4], row[r]);
  return std::max(std::max(most[0], most[1]), std::max(most[2], most[3]));
}

double smallest(const double* row, int from, int to) {
  double least[4] = {HUGE_VAL, HUGE_VAL, HUGE_VAL, HUGE_VAL};
  for (std::size_t r = at(from); r < at(to); ++r) least[r % 4] = std::min(least[r % 4], row[r]);
  return std::min(std::min(least[0], least[1]), std::min(least[2], least[3]));
}

class Sweep {
 public:
  Sweep(const Rotation& rotation, const SimulatedCall& simulated, const Network& network, std::size_t window)
      : rotation_(rotation), ranks_(simulated.ranks), network_(network), table_(simulated, network), window_(window) {
    const std::size_t n = at(ranks_);
    for (Row* row : {&waits_, &zeros_, &out_, &out_order_, &in_, &in_order_, &arithmetic_, &arithmetic_order_})
      row->assign(n, 0);
    done_.resize(window);
    head_.resize(window);
    find_wanted();
  }

  /// Messages of all ranks.
  double messages() const { return messages_; }
  /// Picoseconds; negative if an assumption of the method does not hold.
  double run() {
    const std::size_t beats = rotation_.beats.size() - 1;
    double last = 0;
    for (std::size_t i = 0; i < beats; ++i) {
      const Beat& beat = rotation_.beats[i];
      prepare(i);
      if (algorithms::is_local(beat.verb))
        over_runs(beat, [&](int from, int to, std::size_t bytes) { compute(i, beat, from, to, bytes); });
      else if (algorithms::sends(beat.verb))
        over_runs(beat, [&](int from, int to, std::size_t bytes) { send(i, beat, from, to, bytes); });
      else
        over_runs(beat, [&](int from, int to, std::size_t bytes) { receive(i, beat, from, to, bytes); });
      if (late_ != 0 || std::max(old_, held_up_) > earliest_) return -1;
      held_up_ = std::max(held_up_, held_up_here_);
      if (beat.verb != Verb::recv && !algorithms::sends(beat.verb)) last_added_ = beat.verb;
      if (is_wanted_[i]) last = std::max(last, latest_[i] = largest(done_[i % window_]));
    }
    return std::max(last, held_up_);
  }

 private:
  /// Rows whose latest time matters: targets of old dependencies, and steps that no step waits for.
  void find_wanted() {
    const std::size_t beats = rotation_.beats.size() - 1;
    is_wanted_.assign(beats, true);
    latest_.assign(beats, 0);
    for (std::size_t i = 0; i < beats; ++i)
      for (std::uint32_t at = rotation_.beats[i].befores; at < rotation_.beats[i + 1].befores; ++at)
        if (i - rotation_.befores[at] < window_) is_wanted_[rotation_.befores[at]] = false;
    for (std::size_t i = 0; i < beats; ++i)
      for (std::uint32_t at = rotation_.beats[i].befores; at < rotation_.beats[i + 1].befores; ++at)
        if (i - rotation_.befores[at] >= window_) is_wanted_[rotation_.befores[at]] = true;
  }

  /// ready_: when the earlier steps are complete and the previous one on the lane is issued; nullptr: from the
  /// beginning.
  void prepare(std::size_t i) {
    const Beat& beat = rotation_.beats[i];
    old_ = held_up_here_ = 0;
    earliest_ = HUGE_VAL;
    ready_ = nullptr;
    for (Row* row : {&done_[i % window_], &head_[i % window_]}) row->resize(at(ranks_));
    for (std::uint32_t at = beat.befores; at < rotation_.beats[i + 1].befores; ++at) {
      const std::uint32_t before = rotation_.befores[at];
      if (i - before < window_)
        wait_for(done_[before % window_]);
      else
        old_ = std::max(old_, latest_[before]);
    }
    if (algorithms::is_local(beat.verb)) return;
    if (algorithms::sends(beat.verb)) return;  // take_port() handles the order of their lane
    if (ready_ == nullptr && !was_held_) return;
    if (was_held_) wait_for(in_issued_);
    was_held_ = true;
    if (ready_ != in_issued_.data()) in_issued_.assign(ready_, ready_ + ranks_);
  }

  void wait_for(const Row& row) {
    if (ready_ == nullptr) {
      ready_ = row.data();
      return;
    }
    for (std::size_t r = 0; r < waits_.size(); ++r) waits_[r] = std::max(ready_[r], row[r]);
    ready_ = waits_.data();
  }

  /// Calls body(first rank, end, bytes) for ranges of ranks whose message has one size.
  template <class Body>
  void over_runs(const Beat& beat, Body body) {
    const std::vector<Run>& runs = table_.runs(beat);
    for (std::size_t k = 0; k < runs.size(); ++k) {
      const int end = k + 1 < runs.size() ? runs[k + 1].begin : ranks_;
      const int from = runs[k].begin - beat.part;  // the rank whose part that is, up to a trip around the circle
      const int to = end - beat.part;
      if (from < 0) body(from + ranks_, std::min(to, 0) + ranks_, runs[k].bytes);
      if (to > 0) body(std::max(from, 0), to, runs[k].bytes);
    }
  }

  bool has_old() const { return old_ > 0 || held_up_ > 0; }
  /// An old row may be later than steps without bytes that wait for it. They are done by then, and so it must be
  /// before all steps with bytes that follow.
  void may_hold_up(const double* ready, int from, int to) {
    if (old_ > smallest(ready, from, to)) held_up_here_ = old_;
  }

  void send(std::size_t i, const Beat& beat, int from, int to, std::size_t bytes) {
    const double* const ready = ready_ == nullptr ? zeros_.data() : ready_;
    if (bytes == 0) {
      skip_port({from, to}, ready, out_order_.data(), done_[i % window_].data());
      return may_hold_up(ready, from, to);
    }
    if (has_old()) earliest_ = std::min(earliest_, smallest(ready, from, to));
    messages_ += to - from;
    const Costs& costs = table_.costs(beat.ahead, bytes);
    take_port({from, to}, ready, costs, out_order_.data(), out_.data(), head_[i % window_].data(),
              done_[i % window_].data());
  }

  void receive(std::size_t i, const Beat& beat, int from, int to, std::size_t bytes) {
    if (bytes == 0) {
      const double* const ready = ready_ == nullptr ? zeros_.data() : ready_;
      std::copy(ready + from, ready + to, done_[i % window_].data() + from);
      return may_hold_up(ready, from, to);
    }
    // Senders are `ahead` of the receivers; ranks whose sender would lie beyond the last rank wrap around to 0.
    const int wrap = std::clamp(ranks_ - beat.ahead, from, to);
    receive_from(i, beat, {from, wrap}, beat.ahead, bytes);
    receive_from(i, beat, {wrap, to}, beat.ahead - ranks_, bytes);
  }

  void receive_from(std::size_t i, const Beat& beat, Range range, int shift, std::size_t bytes) {
    if (range.from >= range.to) return;
    double* const done = done_[i % window_].data();
    const double* const head = head_[beat.match % window_].data() + (range.from + shift);
    late_ |= arrive(range, head, table_.costs(beat.ahead, bytes), in_order_.data(), in_.data(), done);
    if (ready_ != nullptr)
      for (std::size_t r = at(range.from); r < at(range.to); ++r) done[r] = std::max(done[r], ready_[r]);
    if (has_old()) earliest_ = std::min(earliest_, smallest(done, range.from, range.to));
    if (beat.verb == Verb::recv_reduce) add_up(beat, done, done, range, network_.reduction(bytes));
  }

  void compute(std::size_t i, const Beat& beat, int from, int to, std::size_t bytes) {
    const double* const ready = ready_ == nullptr ? zeros_.data() : ready_;
    if (has_old()) earliest_ = std::min(earliest_, smallest(ready, from, to));
    double* const done = done_[i % window_].data();
    std::copy(ready + from, ready + to, done + from);
    add_up(beat, done, done, {from, to}, beat.verb == Verb::copy ? network_.copying(bytes) : network_.reduction(bytes));
  }

  void add_up(const Beat& beat, double* done, const double* begin, Range range, double cost) {
    if (network_.reduce_per_byte == 0 && network_.copy_per_byte == 0) return;
    const bool same_lane = last_added_ == Verb::recv_reduce && beat.verb == Verb::recv_reduce;
    for (std::size_t r = at(range.from); r < at(range.to); ++r) {
      const double before = arithmetic_order_[r];
      // The order of two simultaneous events is certain only at the beginning and on one lane.
      late_ |= static_cast<std::int64_t>(begin[r] < before || (begin[r] == before && before > 0 && !same_lane));
      arithmetic_order_[r] = begin[r];
      done[r] = arithmetic_[r] = std::max(begin[r], arithmetic_[r]) + cost;
    }
  }

  const Rotation& rotation_;
  int ranks_;
  const Network& network_;
  CostTable table_;
  std::size_t window_;
  std::vector<Row> done_, head_;  ///< of the last `window_` beats: when complete, and when the head is at the receiver
  Row in_issued_;                 ///< when the last receive was issued, if was_held_
  bool was_held_ = false;         ///< some receive was not issued at the beginning
  std::vector<double> latest_;    ///< per beat
  std::vector<bool> is_wanted_;   ///< its latest_ is needed
  const double* ready_ = nullptr;
  Row waits_, zeros_;
  Row out_, in_, arithmetic_;                    ///< when they are free
  Row out_order_, in_order_, arithmetic_order_;  ///< when their last user arrived
  double old_ = 0;                               ///< latest time outside of the window that the current row waits for
  double earliest_ = 0;                          ///< of the current row
  double held_up_ = 0;                           ///< steps without bytes may be as late as that
  double held_up_here_ = 0;                      ///< those of the current row
  Verb last_added_ = Verb::copy;                 ///< the last user of arithmetic
  std::int64_t late_ = 0;                        ///< not 0: an event came out of order
  double messages_ = 0;                          ///< so far, those with bytes
};

/// The number of rows for messages and for dependencies that do not reach back through the plan.
std::size_t near_window(const Rotation& rotation, std::size_t far) {
  std::size_t window = 1;
  for (std::size_t i = 0; i + 1 < rotation.beats.size(); ++i) {
    if (algorithms::receives(rotation.beats[i].verb)) window = std::max(window, i - rotation.beats[i].match + 1);
    for (std::uint32_t at = rotation.beats[i].befores; at < rotation.beats[i + 1].befores; ++at)
      if (const std::size_t back = i - rotation.befores[at]; back < far) window = std::max(window, back + 1);
  }
  return window;
}

}  // namespace

std::optional<Result> run_sweep(const SimulatedCall& simulated, const Network& network) {
  const std::optional<Rotation> rotation = find_rotation(simulated);
  if (!rotation || !has_two_neighbours(*rotation) || !links_are_private(*rotation, simulated, network)) return {};
  const std::size_t near = 8 * static_cast<std::size_t>(simulated.pipeline()) + 8;
  std::size_t tried = 0;
  for (const std::size_t far : {near, rotation->beats.size()}) {
    const std::size_t window = near_window(*rotation, far);
    if (window == tried || 2.0 * static_cast<double>(window) * simulated.ranks * sizeof(double) > most_memory) continue;
    tried = window;
    Sweep sweep{*rotation, simulated, network, window};
    const double time = sweep.run();
    if (time < 0) continue;
    return Result{(network.start + time) * 1e-12, sweep.messages(), "sweep"};
  }
  return {};
}

}  // namespace tutti::cli::simulate
