#include "tests/algorithms/random_order.h"

#include <deque>
#include <map>
#include <random>
#include <utility>

namespace tutti::algorithms::testing {
namespace {

using Number = std::uint64_t;
using Numbers = std::vector<Number>;

std::size_t index(int i) { return static_cast<std::size_t>(i); }

bool is_scan(Collective collective) {
  return collective == Collective::scan || collective == Collective::exclusive_scan;
}

/// Applies x -> a x + b of the left operand first, then that of the right one; a and b have 32 bits each.
Number affine(Number left, Number right) {
  const auto a = [](Number map) { return map >> 32; };
  const auto b = [](Number map) { return map & 0xffffffff; };
  const Number factor = a(left) * a(right) & 0xffffffff;
  return factor << 32 | ((b(left) * a(right) + b(right)) & 0xffffffff);
}

/// Neither associative nor commutative where the order of the fold is promised, associative alone in a scan, else a
/// plain sum.
Number combine(const RunSetup& setup, Number left, Number right) {
  if (setup.collective == Collective::barrier) return left | right;
  if (!setup.claims.rank_order && is_scan(setup.collective)) return affine(left, right);
  return setup.claims.rank_order ? left * 1'000'003 + right : left + right;
}

/// What rank `rank` holds in block `block` before the collective.
Number contribution(int rank, int block) {
  return (index(rank) + 1) * 0x9e3779b97f4a7c15U ^ (index(block) + 1) * 0xc2b2ae3d27d4eb4fU;
}

class RandomRun {
 public:
  RandomRun(const RunSetup& setup, const std::vector<Plan>& plans, std::uint32_t seed)
      : setup_(setup), random_(seed), blocks_(plans[0].shape.ranks * plans[0].shape.pipeline) {
    // Some runs start all they can before anything finishes, some the other way round, some neither.
    start_first_percent_ = std::vector{50, 95, 5}[seed % 3];
    for (const Plan& plan : plans) actors_.push_back(enter(plan));
  }

  std::string run() {
    for (const Actor& actor : actors_)
      if (actor.plan->shape.rank != setup_.held_back)
        for (const Lane& lane : actor.plan->lanes) turn_[lane_key(actor, lane)] = {lane.first, lane.first};
    for (int rank = 0; rank < static_cast<int>(actors_.size()); ++rank)
      if (rank != setup_.held_back)
        for (StepId step = 0; step < actors_[index(rank)].waits.size(); ++step) offer({rank, step});
    while (trouble_.empty() && act()) {
    }
    if (!trouble_.empty()) return trouble_;
    return setup_.held_back >= 0 ? nobody_left() : everything_right();
  }

 private:
  struct Actor {
    const Plan* plan;
    Numbers memory;
    std::vector<std::uint32_t> waits;
    std::size_t finished = 0;
  };
  struct Mark {
    int rank;
    StepId step;
  };
  struct Started {
    Mark mark;
    Numbers left, right, spoilt;
  };
  struct Turn {
    StepId to_start;
    StepId to_finish;
  };
  using LaneKey = std::pair<std::pair<int, int>, Direction>;  // rank and peer

  static LaneKey lane_key(const Actor& actor, const Lane& lane) {
    return {{actor.plan->shape.rank, lane.peer}, lane.direction};
  }
  static LaneKey lane_key(Mark mark, const Step& step) {
    return {{mark.rank, step.peer}, step.verb == Verb::send ? Direction::out : Direction::in};
  }
  static bool local(const Step& step) { return step.verb == Verb::copy || step.verb == Verb::reduce; }

  Actor enter(const Plan& plan) {
    const std::size_t vectors = setup_.in_place ? 1 : 2;
    Actor actor{&plan, Numbers(vectors * index(blocks_) + plan.scratch_like.size()), plan.waits_for};
    for (Number& number : actor.memory) number = garbage();
    const int rank = plan.shape.rank;
    const int root = plan.shape.root;
    for (int block = 0; block < blocks_; ++block) {
      const bool own = block / plan.shape.pipeline == rank;
      const bool output = setup_.collective == Collective::broadcast;
      bool has = true;
      if (setup_.collective == Collective::broadcast || setup_.collective == Collective::scatter) has = rank == root;
      if (setup_.collective == Collective::all_gather || setup_.collective == Collective::gather ||
          setup_.collective == Collective::barrier)
        has = own;
      if (has) actor.memory[place(output ? Buffer::output : Buffer::input, block)] = contribution(rank, block);
    }
    return actor;
  }

  std::size_t place(Buffer buffer, int block) const {
    if (buffer == Buffer::scratch) return index(setup_.in_place ? blocks_ : 2 * blocks_) + index(block);
    return index(block) + (buffer == Buffer::output && !setup_.in_place ? index(blocks_) : 0);
  }

  Number garbage() { return std::uniform_int_distribution<Number>{}(random_); }
  const Step& step_of(Mark mark) const { return actors_[index(mark.rank)].plan->steps[mark.step]; }

  /// Puts a step among those that may start, if it may.
  void offer(Mark mark) {
    if (actors_[index(mark.rank)].waits[mark.step] != 0) return;
    const Step& step = step_of(mark);
    if (!local(step) && turn_.at(lane_key(mark, step)).to_start != mark.step) return;
    startable_.push_back(mark);
  }

  /// Starts or finishes one step; false when nothing can happen.
  bool act() {
    const bool start_first = std::uniform_int_distribution<int>{0, 99}(random_) < start_first_percent_;
    if (start_first) return start_one() || finish_one();
    return finish_one() || start_one();
  }

  std::size_t pick(std::size_t count) { return std::uniform_int_distribution<std::size_t>{0, count - 1}(random_); }

  bool start_one() {
    if (startable_.empty()) return false;
    std::swap(startable_[pick(startable_.size())], startable_.back());
    const Mark mark = startable_.back();
    startable_.pop_back();
    const Step& step = step_of(mark);
    Started started{mark, look(mark.rank, step.left), look(mark.rank, step.right), {}};
    for (int i = 0; i < step.dst.count; ++i) {
      started.spoilt.push_back(garbage());
      actors_[index(mark.rank)].memory[place(step.dst.buffer, step.dst.first + i)] = started.spoilt.back();
    }
    started_.push_back(std::move(started));
    if (!local(step)) {
      StepId& next = turn_.at(lane_key(mark, step)).to_start;
      next = actors_[index(mark.rank)].plan->next_on_lane[mark.step];
      if (next != no_step) offer({mark.rank, next});
    }
    return true;
  }

  bool finish_one() {
    if (started_.empty()) return false;
    const std::size_t from = pick(started_.size());
    for (std::size_t i = 0; i < started_.size(); ++i) {
      const std::size_t at = (from + i) % started_.size();
      if (!can_finish(started_[at].mark)) continue;
      std::swap(started_[at], started_.back());
      const Started started = std::move(started_.back());
      started_.pop_back();
      finish(started);
      return true;
    }
    return false;
  }

  bool can_finish(Mark mark) {
    const Step& step = step_of(mark);
    if (local(step)) return true;
    if (turn_.at(lane_key(mark, step)).to_finish != mark.step) return false;
    if (step.verb == Verb::send) return wire_[{mark.rank, step.peer}].size() < index(setup_.slots);
    return !wire_[{step.peer, mark.rank}].empty();
  }

  Numbers look(int rank, const Blocks& blocks) const {
    Numbers seen;
    for (int i = 0; i < blocks.count; ++i)
      seen.push_back(actors_[index(rank)].memory[place(blocks.buffer, blocks.first + i)]);
    return seen;
  }

  void finish(const Started& started) {
    const Mark mark = started.mark;
    const Step& step = step_of(mark);
    Actor& actor = actors_[index(mark.rank)];
    if (look(mark.rank, step.dst) != started.spoilt) trouble_ = "somebody wrote where a step was writing";
    const bool onto_itself =
        step.dst.count > 0 && place(step.dst.buffer, step.dst.first) == place(step.left.buffer, step.left.first);
    if (!onto_itself && look(mark.rank, step.left) != started.left) trouble_ = "somebody wrote what a step was reading";
    if (look(mark.rank, step.right) != started.right) trouble_ = "somebody wrote what a step was reading";

    Numbers result = started.left;
    if (step.verb == Verb::recv || step.verb == Verb::recv_reduce) {
      std::deque<Numbers>& wire = wire_[{step.peer, mark.rank}];
      if (wire.front().size() != index(step.dst.count)) trouble_ = "a message has another size than its receive";
      wire.front().resize(index(step.dst.count));
      result = step.verb == Verb::recv ? wire.front() : combine_all(started.left, wire.front());
      wire.pop_front();
    } else if (step.verb == Verb::reduce) {
      result = combine_all(started.left, started.right);
    }
    if (step.verb == Verb::send)
      wire_[{mark.rank, step.peer}].push_back(std::move(result));
    else
      for (int i = 0; i < step.dst.count; ++i)
        actor.memory[place(step.dst.buffer, step.dst.first + i)] = result[index(i)];

    ++actor.finished;
    if (!local(step)) turn_.at(lane_key(mark, step)).to_finish = actor.plan->next_on_lane[mark.step];
    for (const StepId next : actor.plan->successors(mark.step))
      if (--actor.waits[next] == 0) offer({mark.rank, next});
  }

  Numbers combine_all(const Numbers& left, const Numbers& right) const {
    Numbers result;
    for (std::size_t i = 0; i < left.size(); ++i) result.push_back(combine(setup_, left[i], right[i]));
    return result;
  }

  std::string nobody_left() const {
    for (const Actor& actor : actors_)
      if (actor.plan->shape.rank != setup_.held_back && actor.finished == actor.plan->steps.size())
        return "a rank left the barrier before another had come";
    return {};
  }

  std::string everything_right() const {
    for (const Actor& actor : actors_) {
      if (actor.finished != actor.plan->steps.size()) return "the plans do not come to an end";
    }
    for (const auto& [link, messages] : wire_)
      if (!messages.empty()) return "a message is never received";
    for (const Actor& actor : actors_) {
      const Shape& shape = actor.plan->shape;
      for (int block = 0; block < blocks_; ++block)
        if (wanted(shape, block) && actor.memory[place(Buffer::output, block)] != expected(shape, block))
          return "a result is wrong";
    }
    return {};
  }

  bool wanted(const Shape& shape, int block) const {
    switch (setup_.collective) {
      case Collective::reduce:
      case Collective::gather:
        return shape.rank == shape.root;
      case Collective::reduce_scatter:
      case Collective::scatter:
        return block / shape.pipeline == shape.rank;
      case Collective::barrier:
        return false;
      case Collective::exclusive_scan:
        return shape.rank > 0;
      default:
        return true;
    }
  }

  Number expected(const Shape& shape, int block) const {
    const int part = block / shape.pipeline;
    switch (setup_.collective) {
      case Collective::broadcast:
      case Collective::scatter:
        return contribution(shape.root, block);
      case Collective::all_gather:
      case Collective::gather:
        return contribution(part, block);
      case Collective::all_to_all:
        return contribution(part, shape.rank * shape.pipeline + block % shape.pipeline);
      default:
        break;
    }
    const int last = setup_.collective == Collective::scan             ? shape.rank
                     : setup_.collective == Collective::exclusive_scan ? shape.rank - 1
                                                                       : shape.ranks - 1;
    Number fold = contribution(0, block);
    for (int rank = 1; rank <= last; ++rank) fold = combine(setup_, fold, contribution(rank, block));
    return fold;
  }

  const RunSetup setup_;
  std::mt19937 random_;
  int blocks_;
  int start_first_percent_;
  std::vector<Actor> actors_;
  std::vector<Mark> startable_;
  std::vector<Started> started_;
  std::map<LaneKey, Turn> turn_;
  std::map<std::pair<int, int>, std::deque<Numbers>> wire_;  // sender and receiver
  std::string trouble_;
};

}  // namespace

std::string run_in_random_order(const RunSetup& setup, const std::vector<Plan>& plans, std::uint32_t seed) {
  return RandomRun(setup, plans, seed).run();
}

std::string run_in_many_orders(Collective collective, Claims claims, const std::vector<Plan>& plans, int slots) {
  const bool can_be_in_place = collective != Collective::all_to_all;
  for (std::uint32_t seed = 1; seed <= 6; ++seed)
    for (const bool in_place : {false, true}) {
      if (in_place && !can_be_in_place) continue;
      std::string trouble = run_in_random_order({collective, claims, slots, in_place}, plans, seed);
      if (!trouble.empty()) return trouble + (in_place ? " (in place)" : "");
    }
  if (collective != Collective::barrier) return {};
  for (int rank = 0; rank < static_cast<int>(plans.size()); ++rank) {
    std::string trouble = run_in_random_order({collective, claims, slots, false, rank}, plans, 1);
    if (!trouble.empty()) return trouble;
  }
  return {};
}

}  // namespace tutti::algorithms::testing
