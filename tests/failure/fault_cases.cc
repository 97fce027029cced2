// Which cases the fault matrix has. Positions come from the plans, so that every step is met, not hoped for.

#include <fmt/format.h>

#include <algorithm>

#include "lib/planner.h"
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

}  // namespace

std::string FaultCase::describe() const {
  return fmt::format("{} with {} over {}, {} ranks: {} of rank {} at step {}", name_of(entry->collective), algorithm,
                     transport, ranks, fault, victim, step);
}

std::string FaultCase::injection() const { return fmt::format("{}:rank={},op=2,step={}", fault, victim, step); }

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
  return cases;
}

}  // namespace tutti::testing
