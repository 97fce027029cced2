// Mistakes in commands on streams, each found by the machine that runs them: in every order, however kind the timing.

#include <doctest/doctest.h>

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "algorithms/catalogue.h"
#include "tests/algorithms/hand_made.h"
#include "tests/algorithms/mutants.h"
#include "tests/algorithms/stream_calls.h"

namespace tutti::algorithms::testing {
namespace {

using Kind = StreamCommand::Kind;

constexpr std::size_t call_count = 3;

struct Algorithm {
  Collective collective;
  const char* name;
};

StreamCalls calls_by(Collective collective, const char* name, int ranks, std::uint32_t slots) {
  std::vector<Plan> plans;
  for (int rank = 0; rank < ranks; ++rank) plans.push_back(find(collective, name).entry->build({rank, ranks}));
  const CallSizes sizes = equal_sizes(collective, plans[0].shape, 50);
  return {{collective, plans, {16, slots}, {}, 8}, std::vector<CallSizes>(call_count, sizes)};
}

struct Findings {
  std::size_t mutants = 0;
  std::string texts;
};

/// Changes each command of that kind, one at a time, and runs the streams in several orders.
void mutate(Kind kind, const std::function<void(StreamCommands&, std::size_t command)>& change, Findings& findings,
            const std::function<bool(const StreamCommands&, std::size_t command)>& chosen = {}) {
  const Algorithm algorithms[] = {{Collective::all_reduce, "ring"},
                                  {Collective::all_reduce, "double_binary_tree"},
                                  {Collective::all_to_all, "pairwise"},
                                  {Collective::barrier, "dissemination"}};
  for (const Algorithm& algorithm : algorithms)
    for (const std::uint32_t slots : {1U, 2U}) {
      StreamCalls run = calls_by(algorithm.collective, algorithm.name, 3, slots);
      REQUIRE(run.run({}) == "");
      for (std::size_t call = 0; call < call_count; ++call)
        for (StreamCommands& commands : run.commands[call])
          for (std::size_t i = 0; i < commands.all.size(); ++i) {
            if (commands.all[i].kind != kind || (chosen && !chosen(commands, i))) continue;
            const StreamCommands original = commands;
            change(commands, i);
            ++findings.mutants;
            INFO(algorithm.name, " call ", call, ": ", to_string(original, original.all[i]));
            for (const StreamOrder& order : {StreamOrder{}, StreamOrder{StreamOrder::Kind::backwards, 0},
                                             StreamOrder{StreamOrder::Kind::random, 5}}) {
              const std::string said = run.run(order);
              CHECK(said != "");
              findings.texts += said + "\n";
            }
            commands = original;
          }
    }
  CHECK(findings.mutants > 20);
}

void drop(StreamCommands& commands, std::size_t command) {
  commands.all.erase(commands.all.begin() + static_cast<std::ptrdiff_t>(command));
}

void check_says(const Findings& findings, const std::string& text) {
  CHECK_MESSAGE(findings.texts.find(text) != std::string::npos, "expected \"", text, "\"");
}

bool uses_slots(const StreamCommands& commands, std::size_t at) {
  const StreamCommand& command = commands.all[at];
  for (std::size_t i = 0; i < std::size_t{command.sources} + command.outputs; ++i)
    if (commands.places[command.first + i].area >= StreamPlace::Area::incoming) return true;
  return false;
}

/// Changes the places of a command's slots.
template <class Change>
auto in_slots(Change change) {
  return [change](StreamCommands& commands, std::size_t at) {
    const StreamCommand& command = commands.all[at];
    for (std::size_t i = 0; i < std::size_t{command.sources} + command.outputs; ++i)
      if (StreamPlace& place = commands.places[command.first + i]; place.area >= StreamPlace::Area::incoming)
        change(place);
  };
}

}  // namespace

TEST_CASE("stream mutants: a missing wait for arrival is found") {
  Findings findings;
  mutate(Kind::wait_arrival, drop, findings);
  check_says(findings, "it reads a slot before it has waited for the message");
}

TEST_CASE("stream mutants: a missing wait for credit is found") {
  Findings findings;
  mutate(Kind::wait_credit, drop, findings);
  check_says(findings, "it overwrites a slot before it has waited for credit");
  check_says(findings, "there is credit for");  // a barrier writes no slot
}

TEST_CASE("stream mutants: a credit that is not returned is found") {
  Findings findings;
  mutate(Kind::signal_credit, drop, findings);
  check_says(findings, "the counter is at");
  check_says(findings, "which has freed the slots of");
}

TEST_CASE("stream mutants: an arrival that is not signalled is found") {
  Findings findings;
  mutate(Kind::signal_arrival, drop, findings);
  check_says(findings, "waits forever");
}

TEST_CASE("stream mutants: a slot that is off by one is found") {
  Findings findings;
  const auto next_slot = in_slots([](StreamPlace& place) { ++place.slot; });
  for (const Kind kind : {Kind::copy, Kind::fold}) mutate(kind, next_slot, findings, uses_slots);
  check_says(findings, "slot 1 is not that of the next message, 0");
}

TEST_CASE("stream mutants: an element that is off by one in its slot is found") {
  Findings findings;
  const auto next_element = in_slots([](StreamPlace& place) { ++place.offset; });
  for (const Kind kind : {Kind::copy, Kind::fold}) mutate(kind, next_element, findings, uses_slots);
  check_says(findings, "other bits than by the plan");
  check_says(findings, "are outside of a slot of 16");
}

TEST_CASE("stream mutants: a signal before the copy that it announces is found") {
  Findings findings;
  const auto hurry = [](StreamCommands& commands, std::size_t at) {
    std::swap(commands.all[at - 1], commands.all[at]);
  };
  for (const Kind kind : {Kind::signal_arrival, Kind::signal_credit})
    mutate(kind, hurry, findings,
           [](const StreamCommands& commands, std::size_t at) { return at > 0 && uses_slots(commands, at - 1); });
  check_says(findings, "before it has waited");
}

TEST_CASE("stream mutants: a copy or a fold that is missing is found") {
  Findings findings;
  for (const Kind kind : {Kind::copy, Kind::fold}) mutate(kind, drop, findings);
  check_says(findings, "other bits than by the plan");
}

TEST_CASE("stream mutants: counters that begin anew at the next call are found") {
  for (const std::uint32_t slots : {1U, 2U, 8U})
    for (int rank = 0; rank < 4; ++rank) {
      StreamCalls run = calls_by(Collective::all_reduce, "ring", 4, slots);
      REQUIRE(run.run({}) == "");
      StreamCounters counters{4};
      run.commands[1][static_cast<std::size_t>(rank)] = run.commands_of(1, rank, counters);
      for (unsigned seed = 0; seed < 5; ++seed) CHECK(run.run({StreamOrder::Kind::random, seed}) != "");
    }
}

TEST_CASE("stream mutants: steps that change places with the next in all ranks end, or not, as the checker says") {
  std::size_t right = 0, stuck = 0;
  const Algorithm algorithms[] = {{Collective::all_reduce, "ring"},
                                  {Collective::all_reduce, "doubling"},
                                  {Collective::reduce_scatter, "ring"},
                                  {Collective::all_to_all, "pairwise"},
                                  {Collective::all_to_all, "direct"}};
  for (const Algorithm& algorithm : algorithms)
    for (const int ranks : {3, 4, 5}) {
      const Collective collective = algorithm.collective;
      std::vector<Plan> plans;
      for (int rank = 0; rank < ranks; ++rank)
        plans.push_back(find(collective, algorithm.name).entry->build({rank, ranks}));
      for (StepId step = 0; step + 1 < plans[0].steps.size(); ++step) {
        std::vector<Plan> swapped = plans;
        for (Plan& plan : swapped)
          if (step + 1 < plan.steps.size())
            plan = apply({Mutation::Kind::swap, plan.shape.rank, step, 0}, collective, plan).value_or(plan);
        const Verdict verdict = check(collective, swapped);
        if (!verdict.ok()) continue;
        const CallSizes sizes = equal_sizes(collective, plans[0].shape, 40);
        INFO(name_of(collective), " ", algorithm.name, " with ", ranks, " ranks, step ", step);
        const auto run = [&](int slots) {
          const StreamSlots links{64, static_cast<std::uint32_t>(slots)};
          return StreamCalls{{collective, swapped, links, {}, 8}, {sizes, sizes}}.run({});
        };
        ++right;
        if (verdict.in_order) {
          CHECK(run(*verdict.in_order) == "");
        } else {
          ++stuck;
          CHECK(run(32).find("deadlock: ") == 0);
        }
      }
    }
  std::printf("%zu plans with swapped steps on streams, %zu of them deadlock as the checker says\n", right, stuck);
  CHECK(stuck > 5);
  CHECK(right > stuck + 5);
}

}  // namespace tutti::algorithms::testing
