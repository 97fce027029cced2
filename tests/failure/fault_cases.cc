// Which cases the fault matrix has. Positions come from the plans, so that every step is met, not hoped for.

#include <fmt/format.h>

#include <algorithm>

#include "lib/collective/planner.h"
#include "tests/failure/fault_matrix.h"

namespace tutti::testing {
namespace {

constexpr std::string_view faults[] = {"kill", "stop", "exit", "throw", "drop"};
constexpr std::string_view transports[] = {"shm", "tcp", "mixed"};

int steps_of(const algorithms::Entry& entry, const std::string& algorithm, int ranks, int rank) {
  detail::Planner planner{{.rank = rank,
                           .ranks = ranks,
                           .transport = "shm",
                           .default_algorithms = {},
                           .table = {&algorithms::TuningTable::builtin(), [](const auto*) {}}}};
  const auto& prepared =
      planner.prepare({.collective = entry.collective, .algorithm = algorithm, .bytes = 4000, .root = 0});
  return static_cast<int>(prepared.plan.steps.size());
}

/// Ranks 0 and 1 are the coordinator and its successor.
void add_cases_of_two(std::vector<FaultCase>& cases) {
  struct Two {
    int first;
    int second;
  };
  constexpr Two victims[] = {{0, 2}, {0, 1}, {1, 3}, {0, 3}};
  constexpr Two left_and_victim[] = {{0, 2}, {0, 1}, {1, 0}, {0, 3}};
  for (const bool one_leaves : {false, true}) {
    std::size_t number = 0;
    for (const algorithms::Entry& entry : algorithms::catalogue()) {
      const std::string algorithm = std::string{entry.name} + (entry.has_pipeline ? "*2" : "");
      for (const std::string_view transport : transports) {
        const std::size_t choice = number++ / 5 % std::size(victims);  // so that a sample has them all
        const Two two = one_leaves ? left_and_victim[choice] : victims[choice];
        FaultCase& fault = cases.emplace_back(FaultCase{&entry, algorithm, transport, "kill", 4, two.second, 0});
        (one_leaves ? fault.leaver : fault.second) = two.first;
      }
    }
  }
}

}  // namespace

std::vector<int> FaultCase::members() const {
  std::vector<int> members;
  for (int rank = 0; rank < ranks; ++rank)
    if (rank != leaver) members.push_back(rank);
  return members;
}

std::string FaultCase::describe() const {
  return fmt::format("{} with {} over {}, {} ranks: {} of rank {} at step {}{}{}", name_of(entry->collective),
                     algorithm, transport, ranks, fault, victim, step,
                     second >= 0 ? fmt::format(" and of rank {}", second) : "",
                     leaver >= 0 ? fmt::format(" after rank {} has left", leaver) : "");
}

std::string FaultCase::injection() const {
  const std::string place = leaver >= 0 ? "group=1,op=2" : "op=2";
  std::string text = fmt::format("{}:rank={},{},step={}", fault, victim, place, step);
  if (second >= 0) text += fmt::format(";{}:rank={},{},step=0", fault, second, place);
  return text;
}

std::vector<FaultCase> all_cases() {
  std::vector<FaultCase> cases;
  for (const int ranks : {4, 7}) {
    for (const algorithms::Entry& entry : algorithms::catalogue()) {
      const std::string algorithm = std::string{entry.name} + (entry.has_pipeline ? "*2" : "");
      for (const int victim : {0, ranks / 2, ranks - 1}) {
        const int steps = steps_of(entry, algorithm, ranks, victim);
        for (int step = 0; step < steps; ++step) {
          const bool outer = step == 0 || step == steps - 1;
          for (const std::string_view transport : transports)
            for (const std::string_view fault : faults) {
              const bool wanted = ranks == 4 ? outer || fault == "kill" : step == steps / 2 && fault == "kill";
              if (wanted) cases.push_back({&entry, algorithm, transport, fault, ranks, victim, step});
            }
        }
      }
    }
  }
  add_cases_of_two(cases);
  return cases;
}

}  // namespace tutti::testing
