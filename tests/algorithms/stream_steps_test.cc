// Commands of a stream as steps that people see: every plan of the catalogue in two rounds, and the tasks of a leader.

#include "algorithms/stream_steps.h"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "algorithms/catalogue.h"
#include "algorithms/check_board.h"
#include "algorithms/stream_tasks.h"
#include "lib/base/index.h"

namespace tutti::algorithms::testing {
namespace {

StreamSizes sizes_of(const Shape& shape, std::size_t block) {
  StreamSizes sizes;
  for (int i = 0; i <= shape.ranks * shape.pipeline; ++i) sizes.input.push_back(at(i) * block);
  sizes.output = sizes.input;
  return sizes;
}

/// Elements by sender, receiver and number; of credits with the number negated.
using Messages = std::map<std::tuple<int, int, long>, std::size_t>;

struct Ends {
  Messages sent, received;
  void add(int rank, const StreamStep& step, const StreamCommands& commands) {
    if (!step.is_message()) return;
    const bool sends = step.kind == StreamStep::Kind::send || step.kind == StreamStep::Kind::send_credit;
    const bool is_credit = step.kind == StreamStep::Kind::send_credit || step.kind == StreamStep::Kind::receive_credit;
    std::size_t elements = 0;
    for (std::size_t i = step.begin; i < step.end; ++i) elements += commands.all[i].elements;
    const auto number = static_cast<long>(step.number) * (is_credit ? -1 : 1);
    const auto key = sends ? std::tuple{rank, step.peer, number} : std::tuple{step.peer, rank, number};
    CHECK((sends ? sent : received).emplace(key, elements).second);
  }
};

/// The steps lie one after the other, and have all commands.
void require_all(const std::vector<StreamStep>& steps, const StreamCommands& commands) {
  std::size_t end = 0;
  for (const StreamStep& step : steps) {
    REQUIRE(step.begin == end);
    REQUIRE(step.end > step.begin);
    end = step.end;
  }
  REQUIRE(end == commands.all.size());
}

TEST_CASE("steps of streams: each step of a plan is there once in a round, and messages have two ends") {
  for (const Entry& entry : catalogue())
    for (const int ranks : {2, 3, 5}) {
      if (entry.collective == Collective::barrier) continue;
      CAPTURE(std::string{name_of(entry.collective)});
      CAPTURE(std::string{entry.name});
      CAPTURE(ranks);
      const Shape any{.rank = 0, .ranks = ranks, .pipeline = entry.has_pipeline ? 2 : 1};
      Choice choice = find(entry.collective, entry.name);
      choice.pipeline = any.pipeline;
      choice.radix = any.radix;
      const std::vector<Plan> plans = plans_of_all(choice, any);
      const StreamUnits units = StreamUnits::of(entry.collective, plans);
      const StreamSizes sizes = sizes_of(any, 10);
      Ends ends;
      for (int rank = 0; rank < ranks; ++rank) {
        const Plan& plan = plans[at(rank)];
        const StreamProgram program{entry.collective, plan, units, sizes, {}, {units.most_in_message() * 6, 1}};
        REQUIRE(program.rounds() >= 2);
        StreamCounters counters{ranks};
        StreamCommands commands;
        for (std::size_t round = 0; round < program.rounds(); ++round) program.add_round(round, counters, commands);
        const std::vector<StreamStep> steps = steps_of(commands);
        require_all(steps, commands);
        std::vector<std::size_t> times(plan.steps.size(), 0);
        for (const StreamStep& step : steps) {
          ends.add(rank, step, commands);
          REQUIRE(step.step < times.size());
          ++times[step.step];
          const Verb verb = plan.steps[step.step].verb;
          CHECK((step.kind == StreamStep::Kind::send) == (verb == Verb::send));
          CHECK((step.kind == StreamStep::Kind::receive) == (verb == Verb::recv));
          CHECK((step.kind == StreamStep::Kind::receive_reduce) == (verb == Verb::recv_reduce));
          CHECK((step.kind == StreamStep::Kind::copy) == (verb == Verb::copy));
        }
        for (StepId id = 0; id < times.size(); ++id) {  // units of few blocks need fewer rounds
          if (plan.steps[id].verb == Verb::copy || plan.steps[id].verb == Verb::reduce) continue;
          CHECK(times[id] >= 2);
          CHECK(times[id] <= program.rounds());
        }
      }
      CHECK(ends.sent == ends.received);
      CHECK(!ends.sent.empty());
    }
}

TEST_CASE("steps of streams: ranks that open their memory to a leader, which tells them when it is done") {
  constexpr int ranks = 3;
  const Shape any{.rank = 0, .ranks = ranks};
  const Lowering made = lower_to_board(plans_of_all(find(Collective::all_reduce, "direct"), any));
  const std::vector<int> leader(ranks, 0);
  const auto programs = run_by(lower_to_windows(made.programs, 0), leader);
  const StreamSizes sizes = sizes_of(any, 10);
  const TaskStages stages{.reduces = true, .copies_input = true, .copies_output = true};
  Ends ends;
  for (int rank = 0; rank < ranks; ++rank) {
    const StreamTasks program{rank, programs, sizes, stages, 1024, 2};
    StreamCounters counters{ranks};
    counters.sent.assign(ranks, 5);  // so that it waits for slots
    StreamCommands commands;
    program.add_round(0, counters, commands);
    const std::vector<StreamStep> steps = steps_of(commands);
    require_all(steps, commands);
    std::vector<StreamStep::Kind> kinds;
    for (const StreamStep& step : steps) {
      kinds.push_back(step.kind);
      CHECK(step.step == no_step);
      if (rank > 0) ends.add(rank, step, commands);
    }
    using enum StreamStep::Kind;
    if (rank == 0)
      CHECK(kinds == std::vector{receive, receive, reduce, send_credit, send_credit});
    else
      CHECK(kinds == std::vector{copy, send, receive_credit, copy});
  }
  CHECK(ends.sent == Messages{{{1, 0, 6}, 0}, {{2, 0, 6}, 0}});
  CHECK(ends.received == Messages{{{0, 1, -6}, 0}, {{0, 2, -6}, 0}});
}

}  // namespace
}  // namespace tutti::algorithms::testing
