#pragma once

// Plans written by hand, to be proved or to be found wrong.

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "algorithms/check.h"
#include "algorithms/plan.h"

namespace tutti::algorithms::testing {

inline Blocks in(int first, int count = 1) { return {Buffer::input, first, count}; }
inline Blocks out(int first, int count = 1) { return {Buffer::output, first, count}; }

using Script = std::function<void(PlanBuilder&, int rank)>;

inline std::vector<Plan> plans_of(int ranks, const Script& script, InPlace in_place = InPlace::allowed) {
  std::vector<Plan> plans;
  for (int rank = 0; rank < ranks; ++rank) {
    PlanBuilder builder{{rank, ranks}, in_place};
    script(builder, rank);
    plans.push_back(std::move(builder).build());
  }
  return plans;
}

/// A right all_gather of two ranks, to be spoilt.
inline std::vector<Plan> exchange() {
  return plans_of(2, [](PlanBuilder& plan, int rank) {
    plan.send(1 - rank, in(rank));
    plan.recv(1 - rank, out(1 - rank));
    plan.copy(out(rank), in(rank));
  });
}

/// Rank 0 sends `messages` to rank 1, which takes them only after one that rank 0 sends elsewhere last.
inline std::vector<Plan> late_taker(int messages) {
  return plans_of(3, [messages](PlanBuilder& plan, int rank) {
    const Blocks token = plan.scratch(in(rank));
    if (rank == 0) {
      for (int message = 0; message < messages; ++message) plan.send(1, in(0));
      plan.send(2, in(0));
      plan.recv(1, token);
    } else if (rank == 2) {
      plan.recv(0, token);
      plan.send(1, token);
      plan.recv(1, token);
    } else {
      plan.recv(2, token);
      for (int message = 0; message < messages; ++message) plan.recv(0, token);
      for (const int to : {0, 2}) plan.send(to, token);
    }
  });
}

inline std::string problems(const Verdict& verdict) {
  std::string text;
  for (const std::string& problem : verdict.problems) text += problem + "\n";
  return text;
}

inline void check_says(const Verdict& verdict, const std::string& text) {
  CHECK_MESSAGE(problems(verdict).find(text) != std::string::npos, "expected \"", text, "\" in: ", problems(verdict));
}
inline void check_says(Collective collective, const std::vector<Plan>& plans, const std::string& text) {
  check_says(check(collective, plans), text);
}
inline void check_proves(const Verdict& verdict) { CHECK_MESSAGE(verdict.ok(), problems(verdict)); }

/// Takes out the wait of one step for another.
inline void drop_wait(Plan& plan, StepId before, StepId after) {
  const auto first = plan.successor.begin() + plan.successor_begin[before];
  const auto last = plan.successor.begin() + plan.successor_begin[before + 1];
  const auto at = std::find(first, last, after);
  REQUIRE(at != last);
  plan.successor.erase(at);
  --plan.waits_for[after];
  for (std::size_t step = before + 1; step < plan.successor_begin.size(); ++step) --plan.successor_begin[step];
}

}  // namespace tutti::algorithms::testing
