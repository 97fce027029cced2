// Every place holds a block number and the set of ranks whose blocks of that number have been combined. It is an error
// if a set would contain a rank twice, and if a place is read that was never written. For data that only move, the set
// has one rank. A barrier's tokens only need to exist: they may be combined any number of times.
//
// Blocks of different numbers cannot meet in a reduction: their sizes differ, which was checked before.
//
// Sets are numbered and combined through a table, since whole ranges of blocks go through the same combinations.

#include "algorithms/check_interpreter.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace tutti::algorithms::checking {
namespace {

FoldOrder order_of(const World& world) {
  if (world.claims.rank_order) return FoldOrder::left_fold;
  return world.traits.is_scan() ? FoldOrder::rank_order : FoldOrder::any;
}

}  // namespace

Sets::Sets(int ranks, FoldOrder order)
    : ranks_(index(ranks)), words_((ranks_ + 63) / 64), order_(order), bits_(first_rank * words_, 0) {
  spans_.assign(first_rank, {0, 0});
  for (int rank = 0; rank < ranks; ++rank) {
    bits_.resize(bits_.size() + words_, 0);
    bits_[bits_.size() - words_ + index(rank) / 64] = std::uint64_t{1} << (rank % 64);
    spans_.push_back({index(rank), index(rank) + 1});
  }
}

std::size_t Sets::count(SetId set) const {
  std::size_t ranks = 0;
  for (std::size_t word = 0; word < words_; ++word)
    ranks += static_cast<std::size_t>(std::popcount(bits_[set * words_ + word]));
  return ranks;
}

bool Sets::is_first(SetId set, int count) const {
  if (this->count(set) != index(count)) return false;
  return index(count) == ranks_ || (spans_[set].from == 0 && spans_[set].to == index(count));
}

SetId Sets::combine_afresh(SetId left, SetId right) {
  for (std::size_t word = 0; word < words_; ++word)
    if ((bits_[left * words_ + word] & bits_[right * words_ + word]) != 0) return twice;
  const Span& l = spans_[left];
  const Span& r = spans_[right];
  const bool in_order = l.to > 0 && l.to == r.from;
  const bool is_left_fold = in_order && l.from == 0 && r.to == r.from + 1;
  if (order_ == FoldOrder::left_fold ? !is_left_fold : order_ == FoldOrder::rank_order && !in_order) return disordered;
  const SetId made = static_cast<SetId>(spans_.size());
  for (std::size_t word = 0; word < words_; ++word)
    bits_.push_back(bits_[left * words_ + word] | bits_[right * words_ + word]);
  spans_.push_back(in_order ? Span{l.from, r.to} : Span{0, 0});
  return made;
}

Interpreter::Interpreter(const World& world, const Run& run, bool in_place, Problems& report)
    : world_(world), run_(run), in_place_(in_place), report_(report), sets_(world.ranks, order_of(world)) {
  for (const Plan& plan : world.plans) {
    memory_at_.push_back(memory_.size());
    memory_.resize(memory_.size() + scratch_at() + plan.scratch_like.size());
  }
  memory_at_.push_back(memory_.size());
  message_of_.resize(world.steps());
  for (int rank = 0; rank < world.ranks; ++rank) fill_input(rank);
}

void Interpreter::execute(RankStep at) {
  at_ = at;
  reported_ = false;
  execute(world_.step(at.rank, at.step));
}

void Interpreter::check_results() {
  std::vector<WrongResult> wrong;
  for (int rank = 0; rank < world_.ranks; ++rank) {
    const Range out = world_.present(rank, Buffer::output);
    for (int block = out.from; block < out.to && wrong.size() < report_.room(); ++block)
      if (auto result = wrong_result(rank, block)) wrong.push_back(std::move(*result));
  }
  explain_losses(world_, run_, in_place_, wrong);
  for (const WrongResult& result : wrong) report_.problem(result.rank, result.text);
  if (wrong.empty() && world_.collective == Collective::all_reduce)
    for (int rank = 1; rank < world_.ranks; ++rank) compare_with_first(rank);
}

void Interpreter::compare_with_first(int rank) {
  for (int block = 0; block < world_.blocks; ++block) {
    const Blocks place{Buffer::output, block, 1};
    const SetId here = find(rank, place)->set, there = find(0, place)->set;
    if (here == there || here == broken || there == broken) continue;
    return report_.problem(rank, "combines " + to_string(place) +
                                     " in another order than rank 0, so the last bits of sums would differ" + mode());
  }
}

std::span<const Value> Interpreter::memory(int rank) const {
  return {memory_.data() + memory_at_[index(rank)], memory_.data() + memory_at_[index(rank) + 1]};
}

void Interpreter::fill_input(int rank) {
  const bool in_output = world_.traits.in_place == InPlace::always && world_.traits.input.is_at(rank, world_.root);
  const Buffer buffer = in_output ? Buffer::output : Buffer::input;
  const Range in = world_.present(rank, buffer);
  Value* place = find(rank, {buffer, in.from, in.to - in.from});
  for (int block = in.from; block < in.to; ++block) *place++ = {block, sets_.of(rank)};
}

void Interpreter::execute(const Step& step) {
  switch (step.verb) {
    case Verb::send:
      return send(step);
    case Verb::recv:
    case Verb::recv_reduce:
      return receive(step);
    case Verb::copy: {
      const Value* from = find(at_.rank, step.left);
      Value* to = find(at_.rank, step.dst);
      for (int i = 0; i < step.dst.count; ++i) to[i] = defined(from[i], step.left, i);
      return;
    }
    case Verb::reduce: {
      const Value* left = find(at_.rank, step.left);
      const Value* right = find(at_.rank, step.right);
      Value* to = find(at_.rank, step.dst);
      for (int i = 0; i < step.dst.count; ++i)
        to[i] = combine(defined(left[i], step.left, i), defined(right[i], step.right, i), step.dst, i);
      return;
    }
  }
}

void Interpreter::send(const Step& step) {
  if (free_messages_.empty()) {
    free_messages_.push_back(static_cast<std::uint32_t>(messages_.size()));
    messages_.emplace_back();
  }
  const std::uint32_t id = free_messages_.back();
  free_messages_.pop_back();
  message_of_[world_.number(at_.rank, at_.step)] = id;
  std::vector<Value>& message = messages_[id];
  message.resize(index(step.left.count));
  const Value* from = find(at_.rank, step.left);
  for (int i = 0; i < step.left.count; ++i) message[index(i)] = defined(from[i], step.left, i);
}

void Interpreter::receive(const Step& step) {
  const std::uint32_t id = message_of_[run_.partner[world_.number(at_.rank, at_.step)]];
  const std::vector<Value>& message = messages_[id];
  Value* to = find(at_.rank, step.dst);
  if (step.verb == Verb::recv) {
    std::copy(message.begin(), message.end(), to);
  } else {
    const Value* left = find(at_.rank, step.left);
    for (int i = 0; i < step.dst.count; ++i)
      to[i] = combine(defined(left[i], step.left, i), message[index(i)], step.dst, i);
  }
  free_messages_.push_back(id);
}

Value Interpreter::defined(Value value, const Blocks& blocks, int i) {
  if (value.set != undefined) return value;
  problem("reads " + to_string({blocks.buffer, blocks.first + i, 1}) + ", which was never written");
  return {value.block, broken};
}

Value Interpreter::combine(Value left, Value right, const Blocks& dst, int i) {
  if (left.set == broken || right.set == broken) return {left.block, broken};
  if (world_.collective == Collective::barrier) return left;
  const SetId set = sets_.combine(left.set, right.set);
  if (set >= first_rank) return {left.block, set};
  const std::string place = to_string({dst.buffer, dst.first + i, 1});
  if (set == twice)
    problem("counts " + ranks_in_both(left.set, right.set) + " twice in " + place);
  else
    problem("does not fold in rank order: " + place + " = (" + ranks_of(left.set) + ") op (" + ranks_of(right.set) +
            ")");
  return {left.block, broken};
}

void Interpreter::problem(const std::string& text) {
  if (!reported_) report_.problem(at_.rank, at_.step, text + mode());
  reported_ = true;
}

template <class Predicate>
std::string Interpreter::list_ranks(Predicate wanted) const {
  std::string text;
  int found = 0;
  for (int rank = 0; rank < world_.ranks; ++rank) {
    if (!wanted(rank)) continue;
    if (++found <= 8) text += (found > 1 ? ", " : "") + std::to_string(rank);
  }
  if (found > 8) text += " and " + std::to_string(found - 8) + " more";
  return (found == 1 ? "rank " : "ranks ") + text;
}
std::string Interpreter::ranks_of(SetId set) const {
  return list_ranks([&](int rank) { return sets_.holds(set, rank); });
}
std::string Interpreter::ranks_in_both(SetId a, SetId b) const {
  return list_ranks([&](int rank) { return sets_.holds(a, rank) && sets_.holds(b, rank); });
}

Contribution Interpreter::origin(int rank, int block) const {
  const int part = block / world_.pipeline;
  if (world_.traits.exchanges()) return {part, rank * world_.pipeline + block % world_.pipeline};
  const bool from_root = world_.traits.input.holders == detail::Holders::root;
  return {from_root ? world_.root : part, block};
}

std::optional<WrongResult> Interpreter::wrong_result(int rank, int block) {
  const Value value = *find(rank, {Buffer::output, block, 1});
  if (value.set == broken) return {};
  const std::string place = "ends with " + to_string({Buffer::output, block, 1});
  if (value.set == undefined) return WrongResult{rank, block, place + " empty" + mode()};
  if (!world_.only_moves()) {
    const int wanted = world_.traits.folded(rank, world_.ranks);
    if (sets_.is_first(value.set, wanted)) return {};
    const auto lacks = [&](int other) { return other < wanted && !sets_.holds(value.set, other); };
    const auto exceeds = [&](int other) { return other >= wanted && sets_.holds(value.set, other); };
    int first = 0;
    while (first < wanted && !lacks(first)) ++first;
    if (first == wanted)
      return WrongResult{rank, block, place + " with that of " + list_ranks(exceeds) + " in it" + mode()};
    return WrongResult{rank, block, place + " lacking " + list_ranks(lacks) + mode(), Contribution{first, value.block},
                       sets_.count(value.set) + 1 < index(wanted)};
  }
  const Contribution expected = origin(rank, block);
  if (value.set == sets_.of(expected.rank) && value.block == expected.block) return {};
  return WrongResult{rank, block,
                     place + " holding block " + std::to_string(value.block) + " of " + ranks_of(value.set) +
                         " instead of block " + std::to_string(expected.block) + " of rank " +
                         std::to_string(expected.rank) + mode(),
                     expected};
}

}  // namespace tutti::algorithms::checking
