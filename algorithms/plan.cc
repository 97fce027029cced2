// Derives the order of steps, by the hazard rule of a processor that executes instructions out of order.
//
// Steps are added in an order in which executing them one after the other is right. Per place we keep the last writer
// and the readers since then. A step that reads a place waits for its writer. A step that writes it waits for those
// readers, which have waited for the writer themselves, or for the writer if there are no readers. The cost is linear
// in the places used.
//
// A place is a run of blocks that each step uses completely or not at all. A tree over 24,576 ranks, which only ever
// moves halves of the vector, has two places instead of 24,576. Blocks are numbered for this purpose: those of the
// vector, once for input and output together, then the scratch slots. (With InPlace::never: input, output, scratch.)

#include "algorithms/plan.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <utility>

#include "algorithms/describe.h"

namespace tutti::algorithms {
namespace {

constexpr std::uint32_t end_of_list = ~std::uint32_t{0};
constexpr std::uint32_t no_lane = ~std::uint32_t{0};

/// The first `count` blocks, or those from `skip` on.
Blocks take(Blocks blocks, int count) { return {blocks.buffer, blocks.first, std::min(count, blocks.count)}; }
Blocks drop(Blocks blocks, int skip) { return {blocks.buffer, blocks.first + skip, std::max(blocks.count - skip, 0)}; }

}  // namespace

PlanBuilder::PlanBuilder(const Shape& shape, InPlace in_place)
    : blocks_(static_cast<std::size_t>(shape.ranks) * static_cast<std::size_t>(shape.pipeline)), in_place_(in_place) {
  plan_.shape = shape;
  lane_index_.assign(2 * static_cast<std::size_t>(shape.ranks), no_lane);
}

void PlanBuilder::send(int peer, Blocks blocks) { add({Verb::send, peer, {}, blocks, {}}); }

void PlanBuilder::recv(int peer, Blocks blocks) { add({Verb::recv, peer, blocks, {}, {}}); }

void PlanBuilder::recv_reduce(int peer, Blocks dst, Blocks own) { add({Verb::recv_reduce, peer, dst, own, {}}); }

void PlanBuilder::copy(Blocks dst, Blocks src) { add({Verb::copy, -1, dst, src, {}}); }

void PlanBuilder::reduce(Blocks dst, Blocks left, Blocks right) { add({Verb::reduce, -1, dst, left, right}); }

Blocks PlanBuilder::scratch(Blocks like) {
  const int first = static_cast<int>(plan_.scratch_like.size());
  const int blocks = static_cast<int>(blocks_);
  for (int i = 0; i < like.count; ++i) {
    const int block = like.first + i;
    plan_.scratch_like.push_back(like.buffer == Buffer::scratch ? plan_.scratch_like[static_cast<std::size_t>(block)]
                                                                : block % blocks);
  }
  return {Buffer::scratch, first, like.count};
}

void PlanBuilder::add(Step step) {
  if (step.verb == Verb::copy && step.dst == step.left) return;
  const int blocks = static_cast<int>(blocks_);
  int left_over = writes_dst(step.verb) ? step.dst.count : step.left.count;
  assert(!reads_left(step.verb) || step.left.count == left_over);
  assert(!reads_right(step.verb) || step.right.count == left_over);
  while (left_over > 0) {
    int count = left_over;
    for (Blocks* range : {&step.dst, &step.left, &step.right})
      if (range->buffer != Buffer::scratch && range->count > 0) {
        range->first %= blocks;
        count = std::min(count, blocks - range->first);
      }
    append({step.verb, step.peer, take(step.dst, count), take(step.left, count), take(step.right, count)});
    step = {step.verb, step.peer, drop(step.dst, count), drop(step.left, count), drop(step.right, count)};
    left_over -= count;
  }
}

void PlanBuilder::append(const Step& step) {
  const StepId id = static_cast<StepId>(plan_.steps.size());
  plan_.steps.push_back(step);
  plan_.waits_for.push_back(0);
  plan_.next_on_lane.push_back(no_step);
  plan_.lane_of.push_back(no_lane);
  waited_by_.push_back(no_step);
  if (sends(step.verb)) join_lane(id, step.peer, Direction::out);
  if (receives(step.verb)) join_lane(id, step.peer, Direction::in);
}

void PlanBuilder::join_lane(StepId step, int peer, Direction direction) {
  assert(peer >= 0 && peer < plan_.shape.ranks && peer != plan_.shape.rank);
  const std::size_t key = 2 * static_cast<std::size_t>(peer) + static_cast<std::size_t>(direction);
  if (lane_index_[key] == no_lane) {
    lane_index_[key] = static_cast<std::uint32_t>(plan_.lanes.size());
    plan_.lanes.push_back({peer, direction, step, 0});
    lane_last_.push_back(step);
  } else {
    plan_.next_on_lane[lane_last_[lane_index_[key]]] = step;
    lane_last_[lane_index_[key]] = step;
  }
  plan_.lane_of[step] = lane_index_[key];
  ++plan_.lanes[lane_index_[key]].count;
}

std::size_t PlanBuilder::first_block(const Blocks& blocks) const {
  const std::size_t first = static_cast<std::size_t>(blocks.first);
  const std::size_t vectors = in_place_ == InPlace::allowed ? 1 : 2;
  if (blocks.buffer == Buffer::scratch) return vectors * blocks_ + first;
  return blocks.buffer == Buffer::output ? (vectors - 1) * blocks_ + first : first;
}

/// Finds where the ranges of all steps begin and end; places lie in between.
void PlanBuilder::join_places() {
  const std::size_t vectors = in_place_ == InPlace::allowed ? 1 : 2;
  place_of_.assign(vectors * blocks_ + plan_.scratch_like.size() + 1, 0);
  const auto mark = [&](const Blocks& blocks) {
    const std::size_t first = first_block(blocks);
    place_of_[first] = place_of_[first + static_cast<std::size_t>(blocks.count)] = 1;
  };
  for (const Step& step : plan_.steps) {
    if (reads_left(step.verb)) mark(step.left);
    if (reads_right(step.verb)) mark(step.right);
    if (writes_dst(step.verb)) mark(step.dst);
  }
  std::partial_sum(place_of_.begin(), place_of_.end(), place_of_.begin());
  writer_.assign(place_of_.back() + std::size_t{1}, no_step);
  readers_.assign(writer_.size(), end_of_list);
}

void PlanBuilder::read(StepId step, const Blocks& blocks) {
  const std::size_t first = first_block(blocks);
  const std::size_t end = place_of_[first + static_cast<std::size_t>(blocks.count)];
  for (std::size_t place = place_of_[first]; place < end; ++place) {
    if (writer_[place] != no_step) wait(step, writer_[place]);
    reader_pool_.push_back({step, readers_[place]});
    readers_[place] = static_cast<std::uint32_t>(reader_pool_.size() - 1);
  }
}

void PlanBuilder::write(StepId step, const Blocks& blocks) {
  const std::size_t first = first_block(blocks);
  const std::size_t end = place_of_[first + static_cast<std::size_t>(blocks.count)];
  for (std::size_t place = place_of_[first]; place < end; ++place) {
    if (readers_[place] == end_of_list && writer_[place] != no_step) wait(step, writer_[place]);
    for (std::uint32_t at = readers_[place]; at != end_of_list; at = reader_pool_[at].next)
      if (reader_pool_[at].step != step) wait(step, reader_pool_[at].step);
    readers_[place] = end_of_list;
    writer_[place] = step;
  }
}

void PlanBuilder::wait(StepId step, StepId for_step) {
  if (waited_by_[for_step] == step) return;
  waited_by_[for_step] = step;
  edges_.push_back({for_step, step});
  ++plan_.waits_for[step];
}

Plan PlanBuilder::build() && {
  join_places();
  for (StepId id = 0; id < plan_.steps.size(); ++id) {
    const Step& step = plan_.steps[id];
    if (reads_left(step.verb)) read(id, step.left);
    if (reads_right(step.verb)) read(id, step.right);
    if (writes_dst(step.verb)) write(id, step.dst);
  }
  // Counting sort of the edges by source; their order by `after` is kept.
  plan_.successor_begin.assign(plan_.steps.size() + 1, 0);
  for (const Edge& edge : edges_) ++plan_.successor_begin[edge.before + 1];
  for (std::size_t i = 1; i < plan_.successor_begin.size(); ++i)
    plan_.successor_begin[i] += plan_.successor_begin[i - 1];
  std::vector<std::uint32_t> next(plan_.successor_begin.begin(), plan_.successor_begin.end() - 1);
  plan_.successor.resize(edges_.size());
  for (const Edge& edge : edges_) plan_.successor[next[edge.before]++] = edge.after;
  return std::move(plan_);
}

}  // namespace tutti::algorithms
