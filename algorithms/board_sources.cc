#include "algorithms/board_sources.h"

#include <algorithm>

#include "algorithms/board_program.h"
#include "algorithms/describe.h"
#include "algorithms/run_in_order.h"

namespace tutti::algorithms::lowering {

void Cuts::mark(const Blocks& blocks) { begins_[at(blocks.first)] = begins_[at(blocks.first + blocks.count)] = 1; }

void Cuts::finish() {
  begins_.front() = begins_.back() = 1;
  for (std::size_t block = 0; block < begins_.size(); ++block) {
    if (begins_[block] != 0) firsts_.push_back(static_cast<int>(block));
    unit_.push_back(static_cast<int>(firsts_.size()) - 1);
  }
}

SourceRun::SourceRun(std::span<const Plan> plans)
    : plans_(plans),
      ranks_(static_cast<int>(plans.size())),
      cuts_(ranks_ * plans[0].shape.pipeline),
      lanes_(at(ranks_) * at(ranks_)) {
  cut();
}

void SourceRun::cut() {
  for (const Plan& plan : plans_) {
    Cuts& scratch = scratch_cuts_.emplace_back(static_cast<int>(plan.scratch_like.size()));
    const auto mark = [&](const Blocks& blocks) { (blocks.buffer == Buffer::scratch ? scratch : cuts_).mark(blocks); };
    for (const Step& step : plan.steps) {
      if (reads_left(step.verb)) mark(step.left);
      if (reads_right(step.verb)) mark(step.right);
      if (writes_dst(step.verb)) mark(step.dst);
    }
    scratch.finish();
  }
  cuts_.finish();
  for (const Cuts& scratch : scratch_cuts_) {
    const std::vector<Value> vector(at(cuts_.units()));
    memory_.push_back({vector, vector, std::vector<Value>(at(scratch.units()))});
  }
}

bool SourceRun::refuse(std::string why) {
  if (why_not_.empty()) why_not_ = std::move(why);
  return false;
}

Value& SourceRun::value(const UnitPlace& place) {
  Memory& memory = memory_[at(place.rank)];
  if (place.buffer == Buffer::scratch) return memory.scratch[at(place.unit)];
  return (place.buffer == Buffer::input ? memory.input : memory.output)[at(place.unit)];
}

/// A value that was never written is there from the start: input, or the output of a broadcast's root.
Value SourceRun::read(const UnitPlace& place) {
  Value& held = value(place);
  if (held.term == nothing) held.term = add_term(nothing, place, nothing);
  return held;
}

int SourceRun::add_term(int before, const UnitPlace& from, int round) {
  terms_.push_back({before, from, round});
  return static_cast<int>(terms_.size()) - 1;
}

std::vector<Term> SourceRun::terms_of(int last) const {
  std::vector<Term> terms;
  for (int id = last; id != nothing; id = terms_[at(id)].before) terms.push_back(terms_[at(id)]);
  std::reverse(terms.begin(), terms.end());
  return terms;
}

std::vector<Term> SourceRun::sources(int rank, int unit) const {
  return terms_of(memory_[at(rank)].output[at(unit)].term);
}

// ---- Values that are kept

/// Gives each unit of scratch an area in which no other unit stands for the same blocks.
bool SourceRun::lay_out_scratch(int rank) {
  const Plan& plan = plans_[at(rank)];
  const int blocks = ranks_ * plan.shape.pipeline;
  std::vector<int> areas(at(blocks), 0);
  for (int unit = 0; unit < scratch_cuts_[at(rank)].units(); ++unit) {
    const Blocks slots = scratch_cuts_[at(rank)].blocks(Buffer::scratch, unit);
    const int like = plan.scratch_like[at(slots.first)];
    for (int i = 1; i < slots.count; ++i)
      if (plan.scratch_like[at(slots.first + i)] != like + i) return refuse("has scratch in another order");
    const int area = *std::max_element(areas.begin() + like, areas.begin() + like + slots.count);
    std::fill_n(areas.begin() + like, slots.count, area + 1);
    scratch_blocks_[at(rank)].push_back({Buffer::scratch, area * blocks + like, slots.count});
    scratch_areas_[at(rank)] = std::max(scratch_areas_[at(rank)], area + 1);
  }
  return true;
}

Blocks SourceRun::blocks(const UnitPlace& place) const {
  if (place.buffer != Buffer::scratch) return cuts_.blocks(place.buffer, place.unit);
  return scratch_blocks_[at(place.rank)][at(place.unit)];
}

void SourceRun::keep(const UnitPlace& where, Value& held) {
  if (held.ready == 0 || is_own(held)) return;
  kept_.push_back({where, terms_of(held.term), held.ready - 1});
  held.term = add_term(nothing, where, nothing);
  value(where) = held;
}

/// The first round from `round` on in which that rank posts nothing else.
int SourceRun::free_round(const UnitPlace& place, int round) {
  std::map<int, UnitPlace>& posts = posts_[at(place.rank)];
  while (posts.try_emplace(round, place).first->second != place) ++round;
  return round;
}

/// A post is a copy: a sum by domains may go where an earlier one was, once that has been posted.
bool SourceRun::is_overwritten(const UnitPlace& where, const Value& sent) {
  const Value& now = value(where);
  return now.term != sent.term && !(by_domains() && now.ready > sent.ready);
}

bool SourceRun::execute() {
  scratch_blocks_.resize(at(ranks_));
  scratch_areas_.resize(at(ranks_));
  posts_.resize(at(ranks_));
  for (int rank = 0; rank < ranks_ && by_domains(); ++rank)
    if (!lay_out_scratch(rank)) return false;
  const Ran ran = run_in_order(
      plans_, [this](int rank, const Step& step) { return can_run(rank, step); },
      [this](int rank, const Step& step) { return execute(rank, step); });
  if (ran == Ran::refused) return false;
  if (ran == Ran::some) return refuse("waits for a message that is never sent");
  for (const auto& [place, sent] : sent_)
    if (is_overwritten(place, sent)) return refuse("writes over what it has sent");
  return true;
}

bool SourceRun::can_run(int rank, const Step& step) {
  if (!receives(step.verb)) return true;
  const Lane& from = lane(step.peer, rank);
  return from.received < from.messages.size();
}

bool SourceRun::execute(int rank, const Step& step) {
  if (step.verb == Verb::send) return send(rank, step);
  const Units to = units(rank, step.dst);
  const std::vector<Value>* message = nullptr;
  if (receives(step.verb)) {
    Lane& from = lane(step.peer, rank);
    message = &from.messages[from.received++];
    if (message->size() != at(to.count())) return cut_differently();
  }
  for (int i = 0; i < to.count(); ++i) {
    Value result = message ? (*message)[at(i)] : Value{};
    UnitPlace left, right;
    if (reads_left(step.verb) && !operand(rank, step.left, step, i, left, result)) return false;
    if (step.verb == Verb::copy && by_domains()) keep(left, result);
    if (step.verb == Verb::recv_reduce) {
      if (by_domains() && result.ready < (*message)[at(i)].ready) keep(left, result);
      if (!combine(result, (*message)[at(i)])) return false;
    }
    if (reads_right(step.verb)) {
      Value more;
      if (!operand(rank, step.right, step, i, right, more)) return false;
      if (by_domains() && result.ready < more.ready) keep(left, result);
      if (by_domains() && (more.ready < result.ready || terms_[at(more.term)].before != nothing)) keep(right, more);
      if (!combine(result, more)) return false;
    }
    value({rank, step.dst.buffer, to.first + i}) = result;
  }
  return true;
}

bool SourceRun::operand(int rank, const Blocks& blocks, const Step& step, int i, UnitPlace& where, Value& found) {
  const Units from = units(rank, blocks);
  if (from.count() != units(rank, step.dst).count()) return cut_differently();
  where = {rank, blocks.buffer, from.first + i};
  found = read(where);
  return true;
}

bool SourceRun::send(int rank, const Step& step) {
  const Units from = units(rank, step.left);
  std::vector<Value> message;
  for (int unit = from.first; unit < from.end; ++unit) {
    const UnitPlace place{rank, step.left.buffer, unit};
    Value sent = read(place);
    if (by_domains()) keep(place, sent);
    const Term last = terms_[at(sent.term)];
    const bool from_the_beginning = last.before == nothing && last.round == nothing && sent.ready == 0;
    const UnitPlace posted = from_the_beginning ? last.from : place;
    if (posted.buffer == Buffer::scratch && !by_domains()) return refuse("sends what it keeps in scratch");
    if (by_domains()) sent.ready = free_round(posted, sent.ready);
    if (sent.ready >= (by_domains() ? most_rounds_by_domains : most_board_rounds))
      return refuse(by_domains() ? "takes more than six rounds" : "takes more than two rounds");
    if (!from_the_beginning) sent_.emplace_back(place, sent);
    message.push_back({add_term(nothing, posted, sent.ready), sent.ready + 1});
  }
  lane(rank, step.peer).messages.push_back(std::move(message));
  return true;
}

/// left = left op right, where `right` is one source. All sources from other ranks arrive in one round; what was kept
/// is this rank's own.
bool SourceRun::combine(Value& left, const Value& right) {
  const Term more = terms_[at(right.term)];
  if (more.before != nothing) return refuse("combines sums with each other");
  const bool both_come = !is_own(left) && !is_own(right);
  if (both_come && left.ready > 0 && right.ready > 0 && left.ready != right.ready)
    return refuse("combines what comes in different rounds");
  left = {add_term(left.term, more.from, more.round), std::max(left.ready, right.ready)};
  return true;
}

}  // namespace tutti::algorithms::lowering
