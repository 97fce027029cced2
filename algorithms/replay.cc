// The plans are run twice: the clock computes when each step takes effect, and the checker's interpreter computes its
// effect, in that order. Nothing here depends on the algorithm.

#include "algorithms/replay.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>

#include "algorithms/check_interpreter.h"
#include "algorithms/replay_clock.h"

namespace tutti::algorithms {
namespace {

using checking::index;
using checking::RankStep;
using checking::World;
using SetNumber = std::uint32_t;

/// Sets of ranks, numbered so that equal sets have one number; 0 is the empty set.
class Table {
 public:
  Table() { number({}); }

  SetNumber number(std::vector<int> set) {
    const auto [known, is_new] = numbers_.emplace(std::move(set), static_cast<SetNumber>(sets_.size()));
    if (is_new) sets_.push_back(known->first);
    return known->second;
  }

  SetNumber unite(SetNumber a, SetNumber b) {
    if (a == b || b == 0) return a;
    if (a == 0) return b;
    SetNumber& known = unions_[std::uint64_t{std::min(a, b)} << 32 | std::max(a, b)];
    if (known == 0) {
      std::vector<int> both;
      std::set_union(sets_[a].begin(), sets_[a].end(), sets_[b].begin(), sets_[b].end(), std::back_inserter(both));
      known = number(std::move(both));
    }
    return known;
  }

  std::size_t size(SetNumber set) const { return sets_[set].size(); }
  int last(SetNumber set) const { return sets_[set].empty() ? -1 : sets_[set].back(); }
  std::vector<std::vector<int>> take() && { return std::move(sets_); }

 private:
  std::vector<std::vector<int>> sets_;
  std::map<std::vector<int>, SetNumber> numbers_;
  std::unordered_map<std::uint64_t, SetNumber> unions_;
};

struct Cell {
  int block;
  Held held;
};

/// The contents of each rank's memory, from the interpreter.
class Holdings {
 public:
  Holdings(const World& world, const checking::Run& run, checking::Problems& report)
      : world_(world), interpreter_(world, run, false, report), slots_(index(world.ranks)) {
    for (int rank = 0; rank < world.ranks; ++rank) {
      const std::vector<int>& like = world.plans[index(rank)].scratch_like;
      for (std::size_t slot = 0; slot < like.size(); ++slot) slots_[index(rank)].emplace_back(like[slot], slot);
      std::sort(slots_[index(rank)].begin(), slots_[index(rank)].end());
    }
  }

  int blocks() const { return world_.blocks; }

  /// The contents of the blocks that the step may have changed.
  std::vector<Cell> apply(RankStep at) {
    interpreter_.execute(at);
    const Step& step = world_.step(at.rank, at.step);
    if (!writes_dst(step.verb)) return {};
    if (world_.traits.exchanges()) return row(at.rank);
    std::vector<Cell> cells;
    for (int i = 0; i < step.dst.count; ++i) {
      const int place = step.dst.first + i;
      const bool scratch = step.dst.buffer == Buffer::scratch;
      const int block = scratch ? world_.plans[index(at.rank)].scratch_like[index(place)] : place;
      cells.push_back({block, of_block(at.rank, block)});
    }
    return cells;
  }

  std::vector<Cell> row(int rank) {
    std::vector<Cell> row;
    for (int block = 0; block < world_.blocks; ++block) row.push_back({block, {}});
    for (const checking::Value& value : interpreter_.memory(rank)) add(rank, value, row[index(value.block)].held);
    for (Cell& cell : row) add_own(rank, cell.held);
    return row;
  }

  std::vector<int> carried_by(const ReplayMessage& message) {
    std::vector<int> blocks;
    for (const checking::Value& value : interpreter_.look(message.from, message.sent)) blocks.push_back(value.block);
    std::sort(blocks.begin(), blocks.end());
    blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
    return blocks;
  }

  void check_results() { interpreter_.check_results(); }
  std::vector<std::vector<int>> take_sets() { return std::move(table_).take(); }

 private:
  /// In an all_to_all a value is only where its block's size is, so few places need a look.
  Held of_block(int rank, int block) {
    const std::span<const checking::Value> memory = interpreter_.memory(rank);
    Held held;
    add(rank, memory[index(block)], held);
    add(rank, memory[index(world_.blocks + block)], held);
    const auto& slots = slots_[index(rank)];
    for (auto slot = std::lower_bound(slots.begin(), slots.end(), std::pair{block, std::size_t{0}});
         slot != slots.end() && slot->first == block; ++slot)
      add(rank, memory[2 * index(world_.blocks) + slot->second], held);
    add_own(rank, held);
    return held;
  }

  /// In a scan only contributions to the rank's own result are shown; the rank may also hold sums for others.
  void add(int rank, const checking::Value& value, Held& held) {
    const SetNumber set = number(value.set);
    if (world_.traits.is_scan() && table_.last(set) >= world_.traits.folded(rank, world_.ranks)) return;
    held.all = table_.unite(held.all, set);
    if (world_.only_moves())
      held.largest = held.all;
    else if (table_.size(set) > table_.size(held.largest))
      held.largest = set;
  }

  /// A rank's own input to a scan, until there is more.
  void add_own(int rank, Held& held) {
    if (world_.traits.is_scan() && held.all == 0) held.all = held.largest = table_.number({rank});
  }

  SetNumber number(checking::SetId set) {
    if (set < checking::first_rank) return 0;
    if (set >= numbers_.size()) numbers_.resize(set + 1, 0);
    if (numbers_[set] == 0) {
      std::vector<int> ranks;
      for (int rank = 0; rank < world_.ranks; ++rank)
        if (interpreter_.sets().holds(set, rank)) ranks.push_back(rank);
      numbers_[set] = table_.number(std::move(ranks));
    }
    return numbers_[set];
  }

  const World& world_;
  checking::Interpreter interpreter_;
  std::vector<std::vector<std::pair<int, std::size_t>>> slots_;  // per rank: scratch by block
  Table table_;
  std::vector<SetNumber> numbers_;  // per set of the interpreter
};

/// For each rank, the ranks whose arrival at a barrier it knows: it knows of every rank that one of its steps comes
/// after.
class Arrivals {
 public:
  Arrivals(const World& world, const checking::Run& run) : world_(world), run_(run), before_(world.steps(), 0) {
    for (int rank = 0; rank < world.ranks; ++rank) known_.push_back(table_.number({rank}));
  }

  int blocks() const { return 1; }

  std::vector<Cell> apply(RankStep at) {
    const Plan& plan = world_.plans[index(at.rank)];
    const SetNumber known = table_.unite(before_[world_.number(at.rank, at.step)], table_.number({at.rank}));
    const auto pass_on = [&](std::uint32_t to) { before_[to] = table_.unite(before_[to], known); };
    for (const StepId next : plan.successors(at.step)) pass_on(world_.number(at.rank, next));
    if (plan.next_on_lane[at.step] != no_step) pass_on(world_.number(at.rank, plan.next_on_lane[at.step]));
    if (sends(plan.steps[at.step].verb)) pass_on(run_.partner[world_.number(at.rank, at.step)]);
    known_[index(at.rank)] = table_.unite(known_[index(at.rank)], known);
    return row(at.rank);
  }

  std::vector<int> carried_by(const ReplayMessage&) const { return {}; }

  std::vector<Cell> row(int rank) const { return {{0, {known_[index(rank)], known_[index(rank)]}}}; }

  void check_results() {}
  std::vector<std::vector<int>> take_sets() { return std::move(table_).take(); }

 private:
  const World& world_;
  const checking::Run& run_;
  Table table_;
  std::vector<SetNumber> before_;  // per step, by number
  std::vector<SetNumber> known_;   // per rank
};

/// Records the changes as the steps take effect.
template <class Contents>
void record(const World& world, const std::vector<Clock::Effect>& effects, Contents contents, Replay& replay) {
  auto message = replay.messages.begin();  // the sends take effect in the order in which they begin
  replay.blocks = contents.blocks();
  for (int rank = 0; rank < world.ranks; ++rank)
    for (const Cell& cell : contents.row(rank)) replay.start.push_back(cell.held);
  std::vector<Held> now = replay.start;
  for (const Clock::Effect& effect : effects) {
    const RankStep at = effect.step;
    for (const Cell& cell : contents.apply(at)) {
      Held& held = now[replay.cell(at.rank, cell.block)];
      if (held != cell.held) replay.changes.push_back({effect.at, at.rank, cell.block, cell.held, at.step});
      held = cell.held;
    }
    if (!sends(world.step(at.rank, at.step).verb)) continue;
    message->blocks = contents.carried_by(*message);
    ++message;
  }
  contents.check_results();
  replay.sets = contents.take_sets();
}

}  // namespace

Replay replay(Collective collective, const std::vector<Plan>& plans, Claims claims, const Cost& cost) {
  Replay replay;
  if (plans.empty()) return replay;
  const World world(collective, plans, claims);
  checking::Problems report(world);
  checking::Run run;
  check_form(world, report);
  if (report.clean()) check_matching(world, run, report);
  if (report.clean()) check_progress(world, run, report);
  if (report.clean()) {
    Clock clock(world, run, cost);
    clock.run();
    replay.ranks = world.ranks;
    replay.messages = clock.take_messages();
    if (collective == Collective::barrier)
      record(world, clock.effects(), Arrivals(world, run), replay);
    else
      record(world, clock.effects(), Holdings(world, run, report), replay);
    replay.steps = clock.take_steps();
    for (const std::vector<StepTime>& steps : replay.steps)
      for (const StepTime& step : steps) replay.end = std::max(replay.end, step.end);
  }
  if (report.clean()) return replay;
  Replay wrong;
  wrong.problems = std::move(report).take();
  return wrong;
}

std::vector<ReplayFrame> frames(const Replay& replay) {
  std::map<Ticks, ReplayFrame> at;
  at[0];
  for (const Change& change : replay.changes) at[change.at];
  for (std::size_t i = 0; i < replay.messages.size(); ++i) at[replay.messages[i].end].messages.push_back(i);
  std::vector<ReplayFrame> frames;
  std::vector<Held> held = replay.start;
  auto change = replay.changes.begin();
  const auto apply_until = [&](Ticks now) {
    for (; change != replay.changes.end() && change->at <= now; ++change)
      held[replay.cell(change->rank, change->block)] = change->held;
  };
  for (auto& [now, frame] : at) {
    apply_until(now);
    frame.at = now;
    frame.held = held;
    frames.push_back(std::move(frame));
  }
  return frames;
}

}  // namespace tutti::algorithms
