#include "tests/algorithms/stream_calls.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <utility>

#include "lib/base/collective_traits.h"
#include "lib/base/index.h"

namespace tutti::algorithms::testing {
namespace {

using Sum = std::uint64_t;
using Sums = std::vector<Sum>;

/// Neither associative nor commutative, so that every change of order shows.
Sum combine(Sum left, Sum right) { return left * 1'000'003 + right; }
Sum scaled(Sum element) { return element * 3 + 1; }
Sum divided(Sum sum) { return sum ^ 0x5555; }

Sum load(const std::byte* from, std::size_t size) {
  Sum value = 0;
  std::memcpy(&value, from, size);
  return value;
}
void store(std::byte* to, Sum value, std::size_t size) { std::memcpy(to, &value, size); }

StreamArithmetic arithmetic(std::size_t element_size, const StreamStages& stages) {
  StreamArithmetic made;
  made.sum_size = sizeof(Sum);
  made.fold = [](std::byte* to, std::span<const std::byte* const> sources, std::size_t elements) {
    for (std::size_t i = 0; i < elements; ++i) {
      Sum sum = load(sources[0] + i * sizeof(Sum), sizeof(Sum));
      for (const std::byte* source : sources.subspan(1))
        sum = combine(sum, load(source + i * sizeof(Sum), sizeof(Sum)));
      store(to + i * sizeof(Sum), sum, sizeof(Sum));
    }
  };
  made.scale = [element_size](std::byte* to, const std::byte* from, std::size_t elements) {
    for (std::size_t i = 0; i < elements; ++i)
      store(to + i * sizeof(Sum), scaled(load(from + i * element_size, element_size)), sizeof(Sum));
  };
  made.divide = [element_size](std::byte* to, const std::byte* from, std::size_t elements) {
    for (std::size_t i = 0; i < elements; ++i)
      store(to + i * element_size, divided(load(from + i * sizeof(Sum), sizeof(Sum))), element_size);
  };
  made.whole = [element_size, stages](std::byte* to, std::span<const std::byte* const> sources, std::size_t elements) {
    const auto contribution = [&](const std::byte* source, std::size_t i) {
      const Sum element = load(source + i * element_size, element_size);
      return stages.input == StreamStages::Input::scaled ? scaled(element) : element;
    };
    for (std::size_t i = 0; i < elements; ++i) {
      Sum sum = contribution(sources[0], i);
      for (const std::byte* source : sources.subspan(1)) sum = combine(sum, contribution(source, i));
      store(to + i * element_size, stages.divides ? divided(sum) : sum, element_size);
    }
  };
  return made;
}

/// Offsets of blocks if each of the parts is cut into `pieces` nearly equal pieces.
std::vector<std::size_t> cut(const std::vector<std::size_t>& parts, int pieces) {
  std::vector<std::size_t> begin;
  std::size_t end = 0;
  for (const std::size_t part : parts) {
    for (int piece = 0; piece < pieces; ++piece) begin.push_back(end + part * at(piece) / at(pieces));
    end += part;
  }
  begin.push_back(end);
  return begin;
}

}  // namespace

CallSizes equal_sizes(Collective collective, const Shape& shape, std::size_t count) {
  const bool parts = detail::traits_of(collective).has_parts();
  const std::vector<std::size_t> begin = parts ? cut(std::vector<std::size_t>(at(shape.ranks), count), shape.pipeline)
                                               : cut({count}, shape.ranks * shape.pipeline);
  return CallSizes(at(shape.ranks), {begin, begin});
}

CallSizes part_sizes(Collective collective, const Shape& shape, const std::vector<std::vector<std::size_t>>& counts) {
  CallSizes sizes;
  for (std::size_t rank = 0; rank < at(shape.ranks); ++rank) {
    const bool exchanges = detail::traits_of(collective).exchanges();
    const std::vector<std::size_t> in = counts[exchanges ? rank : 0];
    std::vector<std::size_t> out = in;
    for (std::size_t from = 0; exchanges && from < out.size(); ++from) out[from] = counts[from][rank];
    sizes.push_back({cut(in, shape.pipeline), cut(out, shape.pipeline)});
  }
  return sizes;
}

StreamCalls::StreamCalls(StreamSetup setup, std::vector<CallSizes> calls)
    : setup_(std::move(setup)), units_(StreamUnits::of(setup_.collective, setup_.plans)), calls_(std::move(calls)) {
  const int ranks = static_cast<int>(setup_.plans.size());
  commands.resize(calls_.size());
  for (int rank = 0; rank < ranks; ++rank) {
    StreamCounters counters{ranks};
    for (std::size_t call = 0; call < calls_.size(); ++call)
      commands[call].push_back(commands_of(call, rank, counters));
  }
}

StreamCommands StreamCalls::commands_of(std::size_t call, int rank, StreamCounters& counters) const {
  if (setup_.tasks && call % 3 != 2) {
    const StreamTasks tasks{rank,
                            setup_.tasks->programs,
                            calls_[call][at(rank)],
                            setup_.tasks->stages,
                            setup_.tasks->staging,
                            setup_.slots.count};
    StreamCommands made;
    for (std::size_t round = 0; round < tasks.rounds(); ++round) tasks.add_round(round, counters, made);
    return made;
  }
  const StreamProgram program{setup_.collective,      setup_.plans[at(rank)], units_,
                              calls_[call][at(rank)], setup_.stages,          setup_.slots};
  StreamCommands made;
  for (std::size_t round = 0; round < program.rounds(); ++round) program.add_round(round, counters, made);
  return made;
}

std::string StreamCalls::run(const StreamOrder& order) {
  const int ranks = static_cast<int>(setup_.plans.size());
  StreamMachine machine{ranks, setup_.slots, arithmetic(setup_.element_size, setup_.stages)};
  machine.share(setup_.tasks ? setup_.tasks->staging : 0, setup_.element_size);
  std::vector<Memory> memories;
  for (std::size_t call = 0; call < calls_.size(); ++call) memories.push_back(fresh(call));
  std::vector<Memory> expected = memories;
  std::deque<StreamMemory> views;
  for (std::size_t call = 0; call < calls_.size(); ++call)
    for (int rank = 0; rank < ranks; ++rank)
      machine.enqueue(rank, commands[call][at(rank)],
                      views.emplace_back(view(call, rank, memories[call].ranks[at(rank)])));
  if (std::string trouble = machine.run(order); !trouble.empty()) return trouble;
  ran_ += machine.counts().commands;
  for (std::size_t call = 0; call < calls_.size(); ++call) {
    run_plans(call, expected[call]);
    for (int rank = 0; rank < ranks; ++rank)
      if (memories[call].ranks[at(rank)].input != expected[call].ranks[at(rank)].input ||
          memories[call].ranks[at(rank)].output != expected[call].ranks[at(rank)].output)
        return "rank " + std::to_string(rank) + " call " + std::to_string(call) + ": other bits than by the plan";
  }
  return {};
}

/// Both buffers have room for all blocks; what a rank does not have holds values, too.
StreamCalls::Memory StreamCalls::fresh(std::size_t call) const {
  Memory memory;
  std::uint64_t value = call + 1;
  for (std::size_t rank = 0; rank < setup_.plans.size(); ++rank) {
    const StreamSizes& sizes = calls_[call][rank];
    const StreamProgram program{setup_.collective, setup_.plans[rank], units_, sizes, setup_.stages, setup_.slots};
    Rank made;
    made.input.resize(sizes.input.back() * setup_.element_size);
    if (!setup_.stages.in_place) made.output.resize(sizes.output.back() * setup_.element_size);
    made.scratch.resize(program.scratch() * sizeof(Sum));
    for (Bytes* bytes : {&made.input, &made.output, &made.scratch})
      for (std::byte& byte : *bytes) byte = static_cast<std::byte>((value = value * 6364136223846793005U + 1) >> 56);
    memory.ranks.push_back(std::move(made));
  }
  return memory;
}

Blocks StreamCalls::held(int rank, Buffer buffer) const {
  const Shape& shape = setup_.plans[at(rank)].shape;
  const detail::CollectiveTraits& traits = detail::traits_of(setup_.collective);
  const detail::BufferTraits& has = buffer == Buffer::input ? traits.input : traits.output;
  if (!has.is_at(rank, shape.root)) return {buffer, 0, 0};
  if (has.extent == detail::Extent::own_part) return {buffer, rank * shape.pipeline, shape.pipeline};
  return {buffer, 0, shape.ranks * shape.pipeline};
}

/// Only what a rank has can be reached.
StreamMemory StreamCalls::view(std::size_t call, int rank, Rank& memory) const {
  const auto part = [&](Buffer buffer, Bytes& bytes, const std::vector<std::size_t>& begin) {
    const Blocks blocks = held(rank, buffer);
    const std::size_t first = begin[at(blocks.first)], end = begin[at(blocks.first + blocks.count)];
    return StreamMemory::Part{bytes.data() + first * setup_.element_size, first, end - first, setup_.element_size};
  };
  const StreamSizes& sizes = calls_[call][at(rank)];
  return {part(Buffer::input, memory.input, sizes.input),
          part(Buffer::output, output_of(memory), sizes.output),
          {memory.scratch.data(), 0, memory.scratch.size() / sizeof(Sum), sizeof(Sum)}};
}

/// Runs the plans on whole blocks, each rank as far as it can go, with links that hold any number of messages.
void StreamCalls::run_plans(std::size_t call, Memory& memory) const {
  struct Actor {
    Sums staged, sums;
    std::vector<Sums> scratch;
    std::size_t next = 0;
  };
  const std::size_t ranks = setup_.plans.size(), size = setup_.element_size;
  const StreamStages& stages = setup_.stages;
  if (setup_.collective == Collective::barrier) return;
  std::vector<Actor> actors(ranks);
  const auto begin_of = [&](std::size_t rank, Buffer buffer) -> const std::vector<std::size_t>& {
    return buffer == Buffer::output ? calls_[call][rank].output : calls_[call][rank].input;
  };
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const Bytes& input = memory.ranks[rank].input;
    for (std::size_t i = 0; i < input.size(); i += size) actors[rank].staged.push_back(load(input.data() + i, size));
    if (stages.input == StreamStages::Input::scaled)
      for (Sum& value : actors[rank].staged) value = scaled(value);
    actors[rank].sums.resize(begin_of(rank, Buffer::output).back());
    actors[rank].scratch.resize(setup_.plans[rank].scratch_like.size());
  }
  const auto look = [&](std::size_t rank, const Blocks& blocks) {
    Sums seen;
    for (int block = blocks.first; block < blocks.first + blocks.count; ++block) {
      if (blocks.buffer == Buffer::scratch) {
        seen.insert(seen.end(), actors[rank].scratch[at(block)].begin(), actors[rank].scratch[at(block)].end());
        continue;
      }
      const std::vector<std::size_t>& begin = begin_of(rank, blocks.buffer);
      for (std::size_t i = begin[at(block)]; i < begin[at(block) + 1]; ++i) {
        const bool staged = blocks.buffer == Buffer::input && stages.input != StreamStages::Input::direct;
        const bool apart = blocks.buffer == Buffer::output && stages.sums_apart;
        const Bytes& bytes = blocks.buffer == Buffer::input ? memory.ranks[rank].input : output_of(memory.ranks[rank]);
        seen.push_back(staged ? actors[rank].staged[i] : apart ? actors[rank].sums[i] : load(&bytes[i * size], size));
      }
    }
    return seen;
  };
  const auto write = [&](std::size_t rank, const Blocks& blocks, const Sums& values) {
    std::size_t from = 0;
    for (int block = blocks.first; block < blocks.first + blocks.count; ++block) {
      const bool scratch = blocks.buffer == Buffer::scratch;
      const int like = scratch ? setup_.plans[rank].scratch_like[at(block)] : block;
      const std::vector<std::size_t>& begin = begin_of(rank, blocks.buffer);
      if (scratch) actors[rank].scratch[at(block)].clear();
      for (std::size_t i = begin[at(like)]; i < begin[at(like) + 1]; ++i, ++from) {
        if (scratch)
          actors[rank].scratch[at(block)].push_back(values[from]);
        else if (stages.sums_apart)
          actors[rank].sums[i] = values[from];
        else
          store(&output_of(memory.ranks[rank])[i * size], values[from], size);
      }
    }
  };
  const auto combine_all = [](Sums left, const Sums& right) {
    for (std::size_t i = 0; i < left.size(); ++i) left[i] = combine(left[i], right[i]);
    return left;
  };
  std::map<std::pair<std::size_t, std::size_t>, std::deque<Sums>> wire;
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t rank = 0; rank < ranks; ++rank)
      for (; actors[rank].next < setup_.plans[rank].steps.size(); ++actors[rank].next) {
        const Step& step = setup_.plans[rank].steps[actors[rank].next];
        const bool receives = step.verb == Verb::recv || step.verb == Verb::recv_reduce;
        std::deque<Sums>* from = receives ? &wire[{at(step.peer), rank}] : nullptr;
        if (from && from->empty()) break;
        moved = true;
        if (step.verb == Verb::send) wire[{rank, at(step.peer)}].push_back(look(rank, step.left));
        if (step.verb == Verb::copy) write(rank, step.dst, look(rank, step.left));
        if (step.verb == Verb::reduce)
          write(rank, step.dst, combine_all(look(rank, step.left), look(rank, step.right)));
        if (step.verb == Verb::recv) write(rank, step.dst, from->front());
        if (step.verb == Verb::recv_reduce) write(rank, step.dst, combine_all(look(rank, step.left), from->front()));
        if (from) from->pop_front();
      }
  }
  for (std::size_t rank = 0; rank < ranks && stages.divides; ++rank) {
    const Blocks blocks = held(static_cast<int>(rank), Buffer::output);
    const std::vector<std::size_t>& begin = begin_of(rank, Buffer::output);
    Bytes& output = output_of(memory.ranks[rank]);
    for (std::size_t i = begin[at(blocks.first)]; i < begin[at(blocks.first + blocks.count)]; ++i)
      store(&output[i * size], divided(stages.sums_apart ? actors[rank].sums[i] : load(&output[i * size], size)), size);
  }
}

}  // namespace tutti::algorithms::testing
