// Plans whose ranks use each other's memory: every algorithm of the catalogue that can run so is proved, with any rank
// running the tasks of others. Its commands on streams have the bits of the plan in every order that waits and
// signals allow, without races, between calls that use slots.

#include "algorithms/stream_tasks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <random>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/catalogue.h"
#include "algorithms/check_board.h"
#include "lib/base/collective_traits.h"
#include "lib/base/index.h"
#include "tests/algorithms/hand_made.h"
#include "tests/algorithms/stream_calls.h"
#include "tests/support/sample.h"
#include "tutti/error.h"

namespace tutti::algorithms::testing {
namespace {

using Kind = StreamCommand::Kind;
using Area = StreamPlace::Area;

std::vector<WindowProgram> windows_of(const std::vector<Plan>& plans, int root) {
  const Lowering made = lower_to_board(plans);
  REQUIRE_MESSAGE(!made.programs.empty(), made.why_not);
  return lower_to_windows(made.programs, root);
}

bool is_of_peer(const Entry& entry) { return entry.mesh && entry.collective != Collective::barrier; }

TEST_CASE("tasks: neighbours share GPUs, and the first of each leads") {
  CHECK(first_on_gpus(4, 1) == std::vector<int>{0, 0, 0, 0});
  CHECK(first_on_gpus(5, 2) == std::vector<int>{0, 0, 0, 3, 3});
  CHECK(first_on_gpus(3, 3) == std::vector<int>{0, 1, 2});
}

TEST_CASE("tasks: every algorithm that can run so is right, whoever runs the tasks, for 2 to 16 ranks") {
  std::size_t proved = 0, in_place = 0;
  tutti::testing::Lot lot{2, 6};
  for (const Entry& entry : catalogue()) {
    if (!is_of_peer(entry)) continue;
    for (int ranks = 2; ranks <= 16; ++ranks)
      for (const int root : std::set<int>{0, ranks - 1})
        for (const int gpus : std::set<int>{1, 2, ranks}) {
          if ((root != 0 && !detail::is_rooted(entry.collective)) || (ranks > 5 && !lot.draws())) continue;
          CAPTURE(std::string{name_of(entry.collective)});
          CAPTURE(std::string{entry.name});
          CAPTURE(ranks);
          CAPTURE(root);
          CAPTURE(gpus);
          const Shape shape{0, ranks, root};
          const auto windows = windows_of(plans_of_all({&entry}, shape), root);
          if (windows.empty()) continue;
          const auto programs = run_by(windows, first_on_gpus(ranks, gpus));
          const bool collide = collide_in_place(programs, at(ranks));
          const Verdict verdict = check_windows(entry.collective, shape, programs, {true, entry.rank_order}, !collide);
          CHECK_MESSAGE(verdict.ok(), problems(verdict));
          // What is copied must be.
          if (collide && entry.collective != Collective::all_to_all)
            CHECK_FALSE(check_windows(entry.collective, shape, programs).ok());
          ++proved;
          in_place += collide ? 0 : 1;
        }
  }
  std::printf("%zu shapes proved by tasks, %zu of them in place without a copy\n", proved, in_place);
  CHECK(proved > 100);
  CHECK(in_place > 50);
}

TEST_CASE("tasks: the leader of all ranks makes one result of all inputs, for all outputs") {
  const auto direct = windows_of(plans_of_all({find(Collective::all_reduce, "direct").entry}, {0, 4}), 0);
  const auto led = run_by(direct, first_on_gpus(4, 1));
  REQUIRE(led[0].tasks.size() == 1);
  CHECK(led[0].sources.size() == 4);
  CHECK(led[0].destinations == std::vector<int>{0, 1, 2, 3});
  CHECK(led[1].tasks.empty());
  CHECK_FALSE(collide_in_place(led, 4));
  CHECK(collide_in_place(direct, 4));  // each overwrites what others still read
  const auto two = run_by(direct, first_on_gpus(4, 2));
  CHECK(two[0].destinations == std::vector<int>{0, 1});
  CHECK(two[2].destinations == std::vector<int>{2, 3});
  CHECK(two[2].sources.size() == 4);
}

struct TaskDraws {
  std::mt19937 random;
  std::size_t calls = 0, commands = 0;

  int draw(int from, int to) { return std::uniform_int_distribution{from, to}(random); }

  StreamSetup setup_of(const Entry& entry, int ranks, int gpus, bool in_place) {
    const Shape shape{0, ranks, draw(0, 1) * (ranks - 1)};
    StreamSetup setup{
        entry.collective, plans_of_all({&entry}, shape), {0, static_cast<std::uint32_t>(draw(1, 2))}, {}, 8};
    setup.slots.elements = StreamUnits::of(entry.collective, setup.plans).most_in_message() * 64;
    const detail::CollectiveTraits& traits = detail::traits_of(entry.collective);
    setup.stages.in_place = in_place && traits.in_place != detail::InPlace::always;
    if (traits.reduces() && draw(0, 1) == 1) {
      setup.stages.input = StreamStages::Input::scaled;
      setup.stages.divides = draw(0, 1) == 1;
      setup.stages.sums_apart = setup.stages.divides && draw(0, 1) == 1;
      if (setup.stages.sums_apart) setup.element_size = 4;
    } else if (setup.stages.in_place && traits.in_place == detail::InPlace::never) {
      setup.stages.input = StreamStages::Input::copied;
    }
    TaskSetup tasks{run_by(windows_of(setup.plans, shape.root), first_on_gpus(ranks, gpus)),
                    {traits.reduces(), draw(0, 1) == 1, draw(0, 1) == 1, false},
                    64 * 2 * at(ranks) * at(draw(1, 3)) + at(draw(0, 70))};
    if (setup.stages.in_place && collide_in_place(tasks.programs, at(ranks)))
      tasks.stages.copies_input = tasks.stages.all_by_copies = true;
    setup.tasks = std::move(tasks);
    return setup;
  }

  void try_one(const Entry& entry, int ranks, int gpus, bool in_place) {
    const StreamSetup setup = setup_of(entry, ranks, gpus, in_place);
    const TaskStages& stages = setup.tasks->stages;
    std::vector<CallSizes> sizes;
    for (int call = 0; call < 4; ++call)
      sizes.push_back(
          equal_sizes(entry.collective, setup.plans[0].shape, at(draw(0, 2) == 0 ? draw(0, 9) : draw(0, 300))));
    StreamCalls run{setup, sizes};
    INFO(name_of(entry.collective), " ", std::string(entry.name), " with ", ranks, " ranks on ", gpus, " GPUs, root ",
         setup.plans[0].shape.root, std::string{stages.copies_input ? ", input copied" : ""},
         std::string{stages.copies_output ? ", output copied" : ""}, std::string{in_place ? ", in place" : ""});
    using enum StreamOrder::Kind;
    for (const StreamOrder& order : {StreamOrder{in_turn, 0}, StreamOrder{backwards, 0},
                                     StreamOrder{one_first, static_cast<unsigned>(draw(0, ranks - 1))},
                                     StreamOrder{StreamOrder::Kind::random, static_cast<unsigned>(draw(0, 999))}})
      CHECK(run.run(order) == "");
    calls += 4;
    commands += run.ran();
  }
};

TEST_CASE("tasks: calls have the bits of the plan, without races, in every order, among calls that use slots") {
  TaskDraws draws{std::mt19937{tutti::testing::sample_seed(3)}};
  tutti::testing::Lot lot{4, 48};
  for (const Entry& entry : catalogue())
    if (is_of_peer(entry) && !entry.has_pipeline)
      for (int ranks = 1; ranks <= 16; ++ranks)
        for (const int gpus : std::set<int>{1, (ranks + 1) / 2, ranks})
          for (const bool in_place : {false, true})
            if (ranks <= 3 || lot.draws()) draws.try_one(entry, ranks, gpus, in_place);
  std::printf("%zu calls, two of three by tasks, %zu commands\n", draws.calls, draws.commands);
  CHECK(draws.calls > 300);
}

/// What a mistake may make of command `i`.
std::vector<std::pair<const char*, StreamCommands>> mistakes(const StreamCommands& right, std::size_t i) {
  std::vector<std::pair<const char*, StreamCommands>> made;
  const StreamCommand& command = right.all[i];
  const auto change = [&](const char* what, const auto& how) { how(made.emplace_back(what, right).second); };
  change("without", [i](StreamCommands& to) { to.all.erase(to.all.begin() + static_cast<std::ptrdiff_t>(i)); });
  if (command.kind == Kind::wait_arrival || command.kind == Kind::wait_credit)
    change("too early in", [i](StreamCommands& to) { --to.all[i].value; });
  if (command.elements == 0) return made;
  change("without the last element of", [i](StreamCommands& to) { --to.all[i].elements; });
  if (command.sources > 1)
    change("twice with the second input in",
           [&](StreamCommands& to) { to.places[command.first] = to.places[command.first + 1]; });
  if (command.outputs > 1)
    change("twice with the second output in", [&](StreamCommands& to) {
      to.places[command.first + command.sources] = to.places[command.first + command.sources + 1];
    });
  return made;
}

TEST_CASE("tasks: every mistake in waits, signals and places is found") {
  TaskDraws draws{std::mt19937{5}};
  std::map<std::string, std::size_t> mutants;
  for (const auto& [collective, name] : {std::pair{Collective::all_reduce, "direct"},
                                         {Collective::all_reduce, "direct_two_shot"},
                                         {Collective::all_to_all, "direct"}})
    for (const int gpus : {1, 3})
      for (const bool copies : {false, true}) {
        StreamSetup setup = draws.setup_of(*find(collective, name).entry, 3, gpus, false);
        setup.tasks->stages.copies_input = setup.tasks->stages.copies_output = copies;
        StreamCalls run{setup, std::vector<CallSizes>(3, equal_sizes(collective, setup.plans[0].shape, 300))};
        REQUIRE(run.run({}) == "");
        for (StreamCommands& commands : run.commands[0])  // other calls by tasks are of the same kind
          for (std::size_t i = 0; i < commands.all.size(); ++i) {
            const StreamCommands original = commands;
            const StreamCommand& command = original.all[i];
            // Without it a counter may be ahead of the slots, which only calls by slots have to care for.
            if (command.kind == Kind::wait_credit && i + 1 < original.all.size() &&
                original.all[i + 1].kind == Kind::signal_arrival)
              continue;
            for (auto& [what, mistaken] : mistakes(original, i)) {
              commands = std::move(mistaken);
              ++mutants[what];
              const std::string mistake = std::string{name} + " on " + std::to_string(gpus) + " GPUs" +
                                          (copies ? " by copies: " : ": ") + what + " " + to_string(original, command);
              INFO(mistake);
              std::string said;
              using enum StreamOrder::Kind;
              for (const StreamOrder& order : {StreamOrder{in_turn, 0}, StreamOrder{backwards, 0},
                                               StreamOrder{one_first, 0}, StreamOrder{StreamOrder::Kind::random, 1}})
                if (said.empty()) said = run.run(order);
              CHECK(said != "");
              commands = original;
            }
          }
      }
  CHECK(mutants.size() == 5);
  for (const auto& [what, count] : mutants) {
    std::printf("%zu mistakes were found: %s a command\n", count, what.c_str());
    CHECK(count > 5);
  }
}

TEST_CASE("tasks: an area that is too small is refused") {
  const auto programs = windows_of(plans_of_all({find(Collective::all_reduce, "direct").entry}, {0, 2}), 0);
  const StreamSizes sizes = equal_sizes(Collective::all_reduce, {0, 2}, 10)[0];
  try {
    const StreamTasks program{0, programs, sizes, {true, true, true, false}, 63, 1};
    FAIL_CHECK("not refused");
  } catch (const Error& error) {
    CHECK(std::string(error.what()) ==
          "a staging area of 63 elements is too small: it takes 64 or more, 64 for each range");
  }
  // In one piece where nothing is copied.
  CHECK(StreamTasks{0, programs, sizes, {true, false, false, false}, 0, 1}.rounds() == 1);
}

/// The commands of rank 0 in all rounds.
StreamCommands commands_of(Collective collective, const char* algorithm, int root, const TaskStages& stages) {
  const int ranks = 3;
  const Shape shape{0, ranks, root};
  const auto programs = windows_of(plans_of_all({find(collective, algorithm).entry}, shape), root);
  const StreamSizes sizes = equal_sizes(collective, shape, 1000)[0];
  const StreamTasks program{0, programs, sizes, stages, 4096, 2};
  StreamCounters counters{ranks};
  StreamCommands made;
  for (std::size_t round = 0; round < program.rounds(); ++round) program.add_round(round, counters, made);
  return made;
}

TEST_CASE("tasks: one kernel can do a reduction with its signals and waits, and nothing else changes") {
  for (const bool copies : {false, true})
    for (const char* algorithm : {"direct", "direct_two_shot"}) {
      const bool is_two_shot = std::string{algorithm} == "direct_two_shot";
      TaskStages stages{true, copies, copies && is_two_shot, false};
      const StreamCommands apart = commands_of(Collective::all_reduce, algorithm, 0, stages);
      stages.in_kernels = true;
      const StreamCommands made = commands_of(Collective::all_reduce, algorithm, 0, stages);
      CHECK(made.all == apart.all);
      CHECK(apart.in_kernels.empty());
      REQUIRE(!made.in_kernels.empty());
      std::size_t left = made.all.size();
      for (const StreamCommands::Part part : made.in_kernels) {
        const std::span<const StreamCommand> commands = std::span{made.all}.subspan(part.begin, part.end - part.begin);
        CHECK(std::ranges::count(commands, Kind::copy, &StreamCommand::kind) == 0);
        CHECK(std::ranges::count(commands, Kind::whole, &StreamCommand::kind) == 1);
        CHECK(commands.back().kind == Kind::wait_credit);
        left -= commands.size();
      }
      CHECK(left == static_cast<std::size_t>(std::ranges::count(made.all, Kind::copy, &StreamCommand::kind)));
    }
  // Copies are none, and a rank without a task has nothing to launch.
  CHECK(commands_of(Collective::all_gather, "direct", 0, {.in_kernels = true}).in_kernels.empty());
  CHECK(commands_of(Collective::reduce, "direct", 0, {.reduces = true, .in_kernels = true}).in_kernels.size() == 1);
  CHECK(commands_of(Collective::reduce, "direct", 1, {.reduces = true, .in_kernels = true}).in_kernels.empty());
}

}  // namespace
}  // namespace tutti::algorithms::testing
