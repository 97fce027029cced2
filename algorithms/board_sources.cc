#include "algorithms/board_sources.h"

#include <algorithm>

#include "algorithms/board_program.h"
#include "algorithms/describe.h"

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

std::vector<Term> SourceRun::sources(int rank, int unit) const {
  std::vector<Term> terms;
  for (int id = memory_[at(rank)].output[at(unit)].term; id != nothing; id = terms_[at(id)].before)
    terms.push_back(terms_[at(id)]);
  std::reverse(terms.begin(), terms.end());
  return terms;
}

/// Executing the steps in the order of the list is correct.
bool SourceRun::execute() {
  std::vector<StepId> next(at(ranks_), 0);
  for (bool goes_on = true; goes_on;) {
    goes_on = false;
    for (int rank = 0; rank < ranks_; ++rank) {
      const std::vector<Step>& steps = plans_[at(rank)].steps;
      for (StepId& id = next[at(rank)]; id < steps.size() && can_run(rank, steps[id]); ++id, goes_on = true)
        if (!execute(rank, steps[id])) return false;
    }
  }
  for (int rank = 0; rank < ranks_; ++rank)
    if (next[at(rank)] < plans_[at(rank)].steps.size()) return refuse("waits for a message that is never sent");
  for (const auto& [place, sent] : sent_)
    if (value(place).term != sent.term) return refuse("writes over what it has sent");
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
    if (reads_left(step.verb) && !operand(rank, step.left, step, i, result)) return false;
    if (step.verb == Verb::recv_reduce && !combine(result, (*message)[at(i)])) return false;
    if (reads_right(step.verb)) {
      Value right;
      if (!operand(rank, step.right, step, i, right) || !combine(result, right)) return false;
    }
    value({rank, step.dst.buffer, to.first + i}) = result;
  }
  return true;
}

bool SourceRun::operand(int rank, const Blocks& blocks, const Step& step, int i, Value& found) {
  const Units from = units(rank, blocks);
  if (from.count() != units(rank, step.dst).count()) return cut_differently();
  found = read({rank, blocks.buffer, from.first + i});
  return true;
}

bool SourceRun::send(int rank, const Step& step) {
  const Units from = units(rank, step.left);
  std::vector<Value> message;
  for (int unit = from.first; unit < from.end; ++unit) {
    const UnitPlace place{rank, step.left.buffer, unit};
    const Value sent = read(place);
    const Term last = terms_[at(sent.term)];
    const bool from_the_beginning = last.before == nothing && last.round == nothing;
    if (!from_the_beginning) sent_.emplace_back(place, sent);
    const UnitPlace posted = from_the_beginning ? last.from : place;
    if (posted.buffer == Buffer::scratch) return refuse("sends what it keeps in scratch");
    if (sent.ready >= most_board_rounds) return refuse("takes more than two rounds");
    message.push_back({add_term(nothing, posted, sent.ready), sent.ready + 1});
  }
  lane(rank, step.peer).messages.push_back(std::move(message));
  return true;
}

/// left = left op right, where `right` is one source. All sources from other ranks arrive in one round.
bool SourceRun::combine(Value& left, const Value& right) {
  const Term more = terms_[at(right.term)];
  if (more.before != nothing) return refuse("combines sums with each other");
  if (left.ready > 0 && right.ready > 0 && left.ready != right.ready)
    return refuse("combines what comes in different rounds");
  left = {add_term(left.term, more.from, more.round), std::max(left.ready, right.ready)};
  return true;
}

}  // namespace tutti::algorithms::lowering
