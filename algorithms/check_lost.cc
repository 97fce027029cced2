// A result lacks a rank's contribution: finds the step that lost it.
//
// The run is examined once more, for blocks of one number only. The data in the result are traced back from the last
// step that wrote it; no step on that path holds the contribution, or the result would have it. The first step on that
// path at a rank that did have the contribution is where it was lost. If a step overwrote it there before the rank
// passed anything on, that step lost it; otherwise it was left out.

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "algorithms/check_interpreter.h"

namespace tutti::algorithms::checking {
namespace {

class Search {
 public:
  Search(const World& world, const Run& run, bool in_place, Contribution missing)
      : world_(world), run_(run), silent_(world), interpreter_(world, run, in_place, silent_), missing_(missing) {
    const auto last = interpreter_.memory(world.ranks - 1);
    writer_.assign(place(last.data() + last.size()), none);
    for (auto* sources : {&sources_begin_, &sources_end_}) sources->assign(world.steps(), 0);
    had_.assign(world.steps(), false);
    overwrites_.assign(world.steps(), none);
    for (int rank = 0; rank < world.ranks; ++rank) {
      const auto memory = interpreter_.memory(rank);
      holders_.push_back(std::count_if(memory.begin(), memory.end(), [&](Value value) { return is_there(value); }));
    }
    for (const RankStep& at : run.order) look_at(at);
  }

  std::string explain(int rank, int block) {
    const std::uint32_t last = writer_[place(look(rank, {Buffer::output, block, 1}))];
    if (last == none) return "no step of rank " + std::to_string(rank) + " writes there";
    if (overwrites_[last] != none && world_.only_moves()) return lost_in(last);
    if (world_.only_moves()) return "put there by " + text(last);
    follow_back(last);
    const auto astray = std::find_if(run_.order.begin(), run_.order.end(), [&](const RankStep& at) {
      const std::uint32_t number = world_.number(at.rank, at.step);
      return on_the_way_[number] && had_[number];
    });
    if (astray != run_.order.end()) return blame(astray);
    return "never sent to where it is needed; it would have had to come before " + text(last) +
           ", the last to write there";
  }

 private:
  bool is_there(Value value) const {
    return value.block == missing_.block && interpreter_.sets().holds(value.set, missing_.rank);
  }

  const Value* look(int rank, const Blocks& blocks) { return interpreter_.look(rank, blocks).data(); }
  std::size_t place(const Value* value) const {
    return static_cast<std::size_t>(value - interpreter_.memory(0).data());
  }

  void look_at(RankStep at) {
    const Step& step = world_.step(at.rank, at.step);
    const std::uint32_t number = world_.number(at.rank, at.step);
    sources_begin_[number] = static_cast<std::uint32_t>(sources_.size());
    if (reads_left(step.verb)) add_sources(at.rank, step.left);
    if (reads_right(step.verb)) add_sources(at.rank, step.right);
    if (receives(step.verb)) sources_.push_back(run_.partner[number]);
    sources_end_[number] = static_cast<std::uint32_t>(sources_.size());
    had_[number] = holders_[index(at.rank)] > 0;
    if (!writes_dst(step.verb)) return interpreter_.execute(at);
    const Value* const dst = look(at.rank, step.dst);
    const std::vector<Value> before(dst, dst + step.dst.count);
    interpreter_.execute(at);
    for (int i = 0; i < step.dst.count; ++i) {
      const bool was = is_there(before[index(i)]), is = is_there(dst[i]);
      writer_[place(dst + i)] = number;
      holders_[index(at.rank)] += int{is} - int{was};
      if (was && !is) overwrites_[number] = static_cast<std::uint32_t>(i);
    }
  }

  void add_sources(int rank, const Blocks& blocks) {
    const Value* const values = look(rank, blocks);
    for (int i = 0; i < blocks.count; ++i)
      if (const std::uint32_t by = writer_[place(values + i)]; values[i].block == missing_.block && by != none)
        sources_.push_back(by);
  }

  void follow_back(std::uint32_t last) {
    on_the_way_.assign(world_.steps(), false);
    on_the_way_[last] = true;
    std::vector<std::uint32_t> todo{last};
    while (!todo.empty()) {
      const std::uint32_t number = todo.back();
      todo.pop_back();
      for (std::uint32_t at = sources_begin_[number]; at < sources_end_[number]; ++at)
        if (!on_the_way_[sources_[at]]) on_the_way_[sources_[at]] = true, todo.push_back(sources_[at]);
    }
  }

  /// Among the steps at that rank until something leaves it: the first that overwrites, else the last that only moves
  /// data to which it could have added the contribution, else the last.
  std::string blame(std::vector<RankStep>::const_iterator from) const {
    const int rank = from->rank;
    std::uint32_t last = none, last_move = none;
    for (; from != run_.order.end(); ++from) {
      const std::uint32_t number = world_.number(from->rank, from->step);
      if (from->rank != rank || !on_the_way_[number]) continue;
      if (overwrites_[number] != none) return lost_in(number);
      const Verb verb = world_.step(rank, from->step).verb;
      if (sends(verb) && last != none) break;
      last = number;
      if (!combines(verb)) last_move = number;
      if (sends(verb)) break;
    }
    return "left out in " + text(last_move != none ? last_move : last) + ", though rank " + std::to_string(rank) +
           " has it";
  }

  std::string lost_in(std::uint32_t number) const {
    const Blocks& dst = step_at(number).dst;
    const Blocks place{dst.buffer, dst.first + static_cast<int>(overwrites_[number]), 1};
    return "lost in " + text(number) + ", which overwrites it in " + to_string(place);
  }

  int rank_of(std::uint32_t number) const {
    return static_cast<int>(std::upper_bound(world_.base.begin(), world_.base.end(), number) - world_.base.begin()) - 1;
  }
  const Step& step_at(std::uint32_t number) const {
    return world_.step(rank_of(number), number - world_.base[index(rank_of(number))]);
  }
  std::string text(std::uint32_t number) const {
    return where(world_, rank_of(number), number - world_.base[index(rank_of(number))]);
  }

  const World& world_;
  const Run& run_;
  Problems silent_;
  Interpreter interpreter_;
  const Contribution missing_;
  std::vector<std::uint32_t> writer_;   // per place: the last step that wrote it
  std::vector<std::uint32_t> sources_;  // of each step: the steps that wrote the inputs of the block
  std::vector<std::uint32_t> sources_begin_, sources_end_;
  std::vector<bool> had_;                  // per step: whether its rank had the contribution when it began
  std::vector<std::uint32_t> overwrites_;  // per step: which of its blocks had the contribution and have lost it
  std::vector<std::ptrdiff_t> holders_;    // per rank: places that have the contribution
  std::vector<bool> on_the_way_;
};

constexpr std::size_t fewest_searches = 3;
constexpr std::size_t looked_at = 1'000'000;  // blocks, by all searches together, unless the first searches need more

std::size_t most_searches(const World& world) {
  std::size_t blocks = 1;
  for (const Plan& plan : world.plans)
    for (const Step& step : plan.steps) blocks += index((writes_dst(step.verb) ? step.dst : step.left).count);
  return std::max(fewest_searches, looked_at / blocks);
}

}  // namespace

void explain_losses(const World& world, const Run& run, bool in_place, std::vector<WrongResult>& results) {
  std::size_t searches = results.empty() ? 0 : most_searches(world);
  for (std::size_t i = 0; i < results.size() && searches > 0; ++i) {
    if (!results[i].missing) continue;
    const Contribution missing = *results[i].missing;
    Search search{world, run, in_place, missing};
    --searches;
    for (WrongResult& result : std::span{results}.subspan(i)) {
      if (result.missing != missing) continue;
      result.text += result.is_first_of_several ? ": that of rank " + std::to_string(missing.rank) + " was " : ": ";
      result.text += search.explain(result.rank, result.block);
      result.missing.reset();
    }
  }
}

}  // namespace tutti::algorithms::checking
