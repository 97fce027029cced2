// Plans as commands on streams, with the library's own arithmetic, give what the engine gives over links, to the last
// bit: sums that depend on their order, averages of narrow and wide sums, premultiplied sums.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "algorithms/catalogue.h"
#include "algorithms/stream_program.h"
#include "algorithms/stream_run.h"
#include "lib/base/index.h"
#include "lib/collective/arithmetic.h"
#include "lib/collective/binding.h"
#include "lib/collective/stream_binding.h"
#include "lib/compute/float_environment.h"
#include "lib/compute/kernels.h"
#include "tests/support/noise.h"
#include "tests/support/sample.h"
#include "tests/support/world.h"

namespace tutti::testing {
namespace {

using algorithms::Plan;
using algorithms::StreamMemory;

constexpr std::size_t element_count = 1037;  // of the vector, or of a part

template <class T>
std::vector<T> elements(std::size_t size, int rank) {
  std::vector<T> made;
  for (const float value : noise(size, rank + 1)) {
    if constexpr (std::is_integral_v<T>)
      made.push_back(static_cast<T>(static_cast<std::int64_t>(value * 1000)));
    else
      made.push_back(T(value));
  }
  return made;
}

template <class T>
struct StreamTrial {
  const algorithms::Entry* entry;
  Op op;
  int ranks;
  bool in_place;  // of all_reduce
  std::size_t input() const {
    return entry->collective == Collective::reduce_scatter ? element_count * at(ranks) : element_count;
  }
};

/// What the streams of all ranks make of the trial, in two rounds or more.
template <class T>
std::vector<std::vector<T>> by_streams(const StreamTrial<T>& trial) {
  const int ranks = trial.ranks;
  const Collective collective = trial.entry->collective;
  std::vector<Plan> plans;
  for (int rank = 0; rank < ranks; ++rank) plans.push_back(trial.entry->build({.rank = rank, .ranks = ranks}));
  const auto units = algorithms::StreamUnits::of(collective, plans);
  const auto cuts = detail::Partition::of(collective, element_count, ranks, 1, sizeof(T));
  const algorithms::StreamSizes sizes = detail::stream_sizes(cuts, cuts, plans[0].shape, sizeof(T));
  const detail::Arithmetic arithmetic{compute::reference_table(), data_type_of<T>, trial.op, ranks};
  const algorithms::StreamStages stages = detail::stream_stages(collective, arithmetic, trial.in_place);
  algorithms::StreamArithmetic computing;
  computing.sum_size = arithmetic.sum_size();
  computing.fold = [&](std::byte* to, std::span<const std::byte* const> sources, std::size_t n) {
    arithmetic.combine(to, sources[0], sources[1], n * arithmetic.sum_size());
  };
  computing.scale = [&](std::byte* to, const std::byte* from, std::size_t n) {
    arithmetic.averages() ? arithmetic.begin(to, from, n) : arithmetic.premultiply(to, from, n);
  };
  computing.divide = [&](std::byte* to, const std::byte* from, std::size_t n) { arithmetic.finish(to, from, n); };

  const algorithms::StreamSlots slots{units.most_in_message() * 64, 2};
  std::vector<std::vector<T>> inputs, outputs(at(ranks), std::vector<T>(element_count));
  std::vector<std::vector<std::byte>> scratch(at(ranks));
  std::vector<algorithms::StreamCommands> commands(at(ranks));
  std::vector<StreamMemory> memory;
  for (int rank = 0; rank < ranks; ++rank) {
    const algorithms::StreamProgram program{collective, plans[at(rank)], units, sizes, stages, slots};
    algorithms::StreamCounters counters{ranks};
    for (std::size_t round = 0; round < program.rounds(); ++round)
      program.add_round(round, counters, commands[at(rank)]);
    inputs.push_back(elements<T>(trial.input(), rank));
    if (trial.in_place) outputs[at(rank)] = inputs.back();
    std::vector<T>& input = trial.in_place ? outputs[at(rank)] : inputs.back();
    scratch[at(rank)].resize(program.scratch() * computing.sum_size);
    const std::size_t first = collective == Collective::reduce_scatter ? element_count * at(rank) : 0;
    memory.push_back({{reinterpret_cast<std::byte*>(input.data()), 0, trial.input(), sizeof(T)},
                      {reinterpret_cast<std::byte*>(outputs[at(rank)].data()), first, element_count, sizeof(T)},
                      {scratch[at(rank)].data(), 0, program.scratch(), computing.sum_size}});
  }
  algorithms::StreamMachine machine{ranks, slots, computing};
  for (int rank = 0; rank < ranks; ++rank) machine.enqueue(rank, commands[at(rank)], memory[at(rank)]);
  const compute::FloatEnvironment environment;
  CHECK(machine.run({algorithms::StreamOrder::Kind::random, 3}) == "");
  return outputs;
}

template <class T>
std::size_t compare(int ranks, const std::vector<Op>& ops) {
  std::vector<StreamTrial<T>> trials;
  Lot lot{2, 12};
  for (const Collective collective : {Collective::all_reduce, Collective::reduce_scatter})
    for (const algorithms::Entry& entry : algorithms::catalogue(collective))
      for (const Op& op : ops)
        for (const bool in_place : {false, true})
          if ((!in_place || collective == Collective::all_reduce) && lot.draws())
            trials.push_back({&entry, op, ranks, in_place});
  std::vector<std::vector<std::vector<T>>> made(trials.size(), std::vector<std::vector<T>>(at(ranks)));
  run_ranks({.ranks = ranks, .boards = false}, [&](Communicator& comm) {
    for (std::size_t i = 0; i < trials.size(); ++i) {
      std::vector<T>& result = made[i][at(comm.rank())];
      result.resize(element_count);
      const std::vector<T> own = elements<T>(trials[i].input(), comm.rank());
      const CallOptions options{.algorithm = trials[i].entry->name};
      if (trials[i].in_place)
        comm.all_reduce(result = own, trials[i].op, options);
      else if (trials[i].entry->collective == Collective::all_reduce)
        comm.all_reduce(own, result, trials[i].op, options);
      else
        comm.reduce_scatter(own, result, trials[i].op, options);
    }
  });
  for (std::size_t i = 0; i < trials.size(); ++i) {
    const std::vector<std::vector<T>> streams = by_streams(trials[i]);
    INFO(name_of(trials[i].entry->collective), " ", std::string(trials[i].entry->name), " over ", ranks, " ranks, ",
         name_of(trials[i].op.kind()), " of ", name_of(data_type_of<T>), trials[i].in_place ? ", in place" : "");
    for (std::size_t rank = 0; rank < at(ranks); ++rank)
      CHECK(std::ranges::equal(std::as_bytes(std::span{streams[rank]}.first(element_count)),
                               std::as_bytes(std::span{made[i][rank]})));
  }
  return trials.size();
}

}  // namespace

TEST_CASE("streams give the bits of the engine, with the library's arithmetic") {
  std::size_t trials = 0;
  for (const int ranks : {2, 3, 5, 8}) {
    trials += compare<float>(ranks, {sum, product, avg, premul_sum(0.3)});
    trials += compare<bf16>(ranks, {sum, avg, premul_sum(0.3)});
    trials += compare<f16>(ranks, {max, avg});
    trials += compare<double>(ranks, {sum, avg});
    trials += compare<std::int32_t>(ranks, {sum, avg});
    trials += compare<std::uint8_t>(ranks, {sum, bxor, avg});
  }
  std::printf("%zu reductions on streams have the bits of the engine\n", trials);
}

}  // namespace tutti::testing
