// Every plan of the catalogue as commands on streams: the results have the bits of the plan, whatever the order in
// which the streams of the ranks go on.

#include "algorithms/stream_program.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "algorithms/catalogue.h"
#include "algorithms/check.h"
#include "lib/base/collective_traits.h"
#include "lib/base/index.h"
#include "tests/algorithms/entries.h"
#include "tests/algorithms/hand_made.h"
#include "tests/algorithms/stream_calls.h"
#include "tests/support/sample.h"
#include "tutti/error.h"

namespace tutti::algorithms::testing {
namespace {

/// Draws calls of one entry, and runs them.
class CallDraws {
 public:
  explicit CallDraws(unsigned seed) : random_(seed) {}

  void try_one(const Entry& entry, int ranks, std::uint32_t slots, bool in_place) {
    const Shape shape{0, ranks, draw(0, 1) * (ranks - 1), entry.has_pipeline ? draw(1, 3) : 1,
                      entry.has_radix ? draw(2, 4) : 2};
    StreamSetup setup{entry.collective, build_all(entry, shape), {0, slots}, {}, 8};
    const StreamUnits units = StreamUnits::of(entry.collective, setup.plans);
    setup.slots.elements = units.most_in_message() * pick({1, 2, 5, 64, 200}) + at(draw(0, 3));
    draw_stages(setup, in_place);
    std::vector<CallSizes> calls;
    const std::size_t piece = setup.slots.elements / units.most_in_message();
    for (int call = 0; call < 3; ++call) calls.push_back(draw_sizes(entry, shape, setup, piece));
    StreamCalls run{setup, calls};
    INFO(name_of(entry.collective), " ", std::string(entry.name), " with ", ranks, " ranks, root ", shape.root,
         ", pipeline ", shape.pipeline, ", radix ", shape.radix, ", ", slots, " slots of ", setup.slots.elements,
         in_place ? ", in place" : "");
    using enum StreamOrder::Kind;
    const StreamOrder orders[] = {{in_turn},
                                  {backwards},
                                  {one_first, static_cast<unsigned>(draw(0, ranks - 1))},
                                  {random, static_cast<unsigned>(draw(0, 999))}};
    for (const StreamOrder& order : {orders[draw(0, 1)], orders[2], orders[3]}) CHECK(run.run(order) == "");
    cells += 3;
    commands += run.ran();
  }

  std::size_t cells = 0;
  std::size_t commands = 0;

 private:
  int draw(int from, int to) { return std::uniform_int_distribution{from, to}(random_); }
  std::size_t pick(std::initializer_list<std::size_t> of) {
    return *(of.begin() + draw(0, static_cast<int>(of.size()) - 1));
  }

  void draw_stages(StreamSetup& setup, bool in_place) {
    const detail::CollectiveTraits& traits = detail::traits_of(setup.collective);
    StreamStages& stages = setup.stages;
    stages.in_place = in_place && traits.in_place != detail::InPlace::always;
    if (traits.reduces()) {
      if (draw(0, 1) == 1) stages.input = StreamStages::Input::scaled;
      stages.divides = !traits.is_scan() && stages.input == StreamStages::Input::scaled && draw(0, 2) > 0;
      stages.sums_apart = stages.divides && draw(0, 1) == 1;
      if (stages.sums_apart) setup.element_size = 4;
    } else if (stages.in_place && traits.in_place == detail::InPlace::never) {
      stages.input = StreamStages::Input::copied;
    }
  }

  /// Few elements, or some rounds of them. Parts differ where they may.
  CallSizes draw_sizes(const Entry& entry, const Shape& shape, const StreamSetup& setup, std::size_t piece) {
    const bool parts = detail::traits_of(entry.collective).has_parts();
    const auto count = [&] {
      const std::size_t blocks = parts ? at(shape.pipeline) : at(shape.ranks * shape.pipeline);
      return pick({0, 1, blocks - 1, blocks + 3, piece * blocks, piece * blocks * 2 + 1, piece * 3 + 7});
    };
    const bool in_place_exchange = setup.stages.input == StreamStages::Input::copied;
    if (!parts || entry.equal_parts || in_place_exchange || draw(0, 2) == 0)
      return equal_sizes(entry.collective, shape, count());
    std::vector<std::vector<std::size_t>> counts(at(shape.ranks));
    for (auto& row : counts)
      for (int part = 0; part < shape.ranks; ++part) row.push_back(count());
    return part_sizes(entry.collective, shape, counts);
  }

  std::mt19937 random_;
};

}  // namespace

TEST_CASE("streams: every plan has its bits, with all slots and pieces, in place and not, call after call") {
  CallDraws draws{tutti::testing::sample_seed(7)};
  tutti::testing::Lot lot{4, 120};
  for (const Entry& entry : catalogue())
    for (int ranks = 1; ranks <= 16; ++ranks)
      for (const std::uint32_t slots : {1U, 2U, 8U})
        for (const bool in_place : {false, true})
          if (lot.draws()) draws.try_one(entry, ranks, slots, in_place);
  std::printf("%zu runs of 3 calls on streams, %zu commands\n", draws.cells, draws.commands);
}

TEST_CASE("streams: the verdict of the checker is that of a run") {
  std::size_t stuck = 0, ended = 0;
  for (const int messages : {1, 2, 3, 7})
    for (const std::uint32_t slots : {1U, 2U, 3U, 8U}) {
      StreamCalls calls{{Collective::barrier, late_taker(messages), {1, slots}, {}, 8},
                        std::vector<CallSizes>(2, equal_sizes(Collective::barrier, {0, 3}, 0))};
      const std::string said = calls.run({});
      if (static_cast<int>(slots) < messages) {
        CHECK(said.find("deadlock: rank 0 call 0 command") == 0);
        ++stuck;
      } else {
        CHECK(said == "");
        ++ended;
      }
    }
  CHECK(stuck > 4);
  CHECK(ended > 4);
}

TEST_CASE("streams: a long vector goes in rounds, whose pieces fit into slots and keep their blocks") {
  const Entry* const ring = find(Collective::all_reduce, "ring").entry;
  const std::vector<Plan> plans = build_all(*ring, {0, 4});
  const StreamUnits units = StreamUnits::of(Collective::all_reduce, plans);
  CHECK(units.most_in_message() == 1);
  const CallSizes sizes = equal_sizes(Collective::all_reduce, {0, 4}, 4000);
  const StreamProgram program{Collective::all_reduce, plans[0], units, sizes[0], {}, {300, 1}};
  CHECK(program.piece() == 256);  // a multiple of 64 elements
  CHECK(program.rounds() == 4);   // blocks of 1000 elements
  CHECK(program.scratch() == 0);
  StreamCounters counters{4};
  StreamCommands commands;
  for (std::size_t round = 0; round < program.rounds(); ++round) program.add_round(round, counters, commands);
  for (const StreamCommand& command : commands.all) CHECK(command.elements <= 256);
  CHECK(counters.sent == std::vector<std::uint64_t>{0, 24, 0, 0});
  CHECK(counters.received == std::vector<std::uint64_t>{0, 0, 0, 24});
}

TEST_CASE("streams: a message of several blocks that lie side by side is one copy") {
  const Entry* const tree = find(Collective::broadcast, "tree").entry;
  const std::vector<Plan> plans = build_all(*tree, {0, 8});
  const StreamUnits units = StreamUnits::of(Collective::broadcast, plans);
  CHECK(units.most_in_message() == 1);
  const CallSizes sizes = equal_sizes(Collective::broadcast, {0, 8}, 8000);
  const StreamProgram program{Collective::broadcast, plans[0], units, sizes[0], {}, {8000, 1}};
  StreamCounters counters{8};
  StreamCommands commands;
  program.add_round(0, counters, commands);
  CHECK(commands.all.size() == 6);  // three messages, each a copy and a signal
  CHECK(to_string(commands, commands.all[0]) == "copy slot 0 to 4 [0..7999] = output[0..7999]");
  CHECK(to_string(commands, commands.all[1]) == "signal_arrival 1 to 4");
}

TEST_CASE("streams: blocks that ranks exchange are units, since neighbours at one end are none at the other") {
  // Blocks 1 and 2 of rank 0 become blocks 2 and 3 of rank 1.
  const std::vector<Plan> plans = plans_of(
      4,
      [](PlanBuilder& plan, int rank) {
        if (rank == 0) plan.send(1, in(0, 3));
        if (rank == 1) plan.recv(0, out(1, 3));
      },
      InPlace::never);
  CHECK(StreamUnits::of(Collective::all_to_all, plans).most_in_message() == 3);
  StreamCalls calls{{Collective::all_to_all, plans, {30, 1}, {}, 8}, {equal_sizes(Collective::all_to_all, {0, 4}, 50)}};
  CHECK(calls.run({}) == "");
}

TEST_CASE("streams: what two ranks write side by side is no race, and what they write in the same place is one") {
  constexpr std::size_t count = 16;  // elements of 2 bytes, of sums of 8
  StreamCommands divide;
  divide.all.push_back({.kind = StreamCommand::Kind::divide, .sources = 1, .outputs = 1, .elements = count});
  divide.places = {{StreamPlace::Area::scratch}, {StreamPlace::Area::output}};
  StreamArithmetic arithmetic;
  arithmetic.sum_size = 8;
  arithmetic.divide = [](std::byte* to, const std::byte*, std::size_t n) { std::fill_n(to, 2 * n, std::byte{1}); };
  const auto run = [&](std::size_t distance) {
    std::vector<std::byte> outputs(4 * count), scratch(8 * count);
    std::vector<StreamMemory> memory(2);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      memory[rank].output = {outputs.data() + rank * distance, 0, count, 2};
      memory[rank].scratch = {scratch.data(), 0, count, 8};
    }
    StreamMachine machine{2, {64, 1}, arithmetic};
    machine.enqueue(0, divide, memory[0]);
    machine.enqueue(1, divide, memory[1]);
    return machine.run({});
  };
  CHECK(run(2 * count) == "");
  CHECK(run(2 * count - 2) ==
        "rank 1 call 0 command 0 (divide output[0..15] = scratch[0..15]): it writes what rank 0 writes, and nothing "
        "orders the two");
}

TEST_CASE("streams: slots that are too small are refused") {
  const Entry* const bruck = find(Collective::all_to_all, "bruck").entry;
  const std::vector<Plan> plans = build_all(*bruck, {0, 8});
  const StreamUnits units = StreamUnits::of(Collective::all_to_all, plans);
  CHECK(units.most_in_message() == 4);
  const CallSizes sizes = equal_sizes(Collective::all_to_all, {0, 8}, 5);
  try {
    const StreamProgram program{Collective::all_to_all, plans[0], units, sizes[0], {}, {3, 2}};
    FAIL_CHECK("not refused");
  } catch (const Error& error) {
    CHECK(std::string(error.what()) ==
          "a slot of 3 elements is too small: a message takes 4 or more, one for each unit");
  }
}

}  // namespace tutti::algorithms::testing
