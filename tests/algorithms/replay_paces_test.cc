// Paces against replays, of every algorithm that cuts the vector into slices.

#include "algorithms/replay_paces.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "algorithms/catalogue.h"
#include "algorithms/replay.h"
#include "tests/algorithms/entries.h"

namespace tutti::algorithms::testing {
namespace {

/// A little more than that ratio, so that no message ends exactly when another one does.
Cost cost_at(double octaves) {
  return {std::llround(1e9 * std::exp2(-std::min(octaves, 0.0))),
          std::llround(1e9 * std::exp2(std::max(octaves, 0.0))) + 1};
}

double time_at(const std::vector<Pace>& paces, double octaves, const Cost& cost) {
  const auto after = std::find_if(paces.begin(), paces.end(),
                                  [&](const Pace& pace) { return pace.from > std::lround(octaves * ratio_steps); });
  const Pace& pace = *std::prev(after);
  return static_cast<double>(pace.messages) * static_cast<double>(cost.message) +
         static_cast<double>(pace.blocks) * static_cast<double>(cost.block);
}

TEST_CASE("paces are what replays take") {
  for (const Entry& entry : catalogue()) {
    if (!entry.has_slices) continue;
    for (const int ranks : {2, 5, 8, 13})
      for (const int pipeline : {1, 2, 8}) {
        const std::vector<Plan> plans = build_all(entry, {0, ranks, 0, pipeline});
        const std::vector<Pace> found = paces(entry.collective, plans, claims_of(entry));
        REQUIRE(!found.empty());
        CHECK(found.front().from == -most_octaves * ratio_steps);
        // On uneven hosts messages of two rails meet at a rank at the same time, and chance decides which comes first.
        const double most = entry.name == "rails" && ranks % 2 != 0 ? 0.02 : 1e-3;
        for (double octaves = -9.75; octaves <= 9.75; octaves += 0.75) {
          const Cost cost = cost_at(octaves);
          const auto end = static_cast<double>(replay(entry.collective, plans, claims_of(entry), cost).end);
          CHECK_MESSAGE(std::abs(time_at(found, octaves, cost) / end - 1) < most, name_of(entry.collective), ' ',
                        std::string(entry.name), " ranks ", ranks, " pipeline ", pipeline, " at 2^", octaves);
        }
      }
  }
}

TEST_CASE("cutting each rank's part gains nothing where adding up is free") {
  for (const Entry& entry : catalogue()) {
    if (!entry.has_pipeline || entry.has_slices) continue;
    for (const int ranks : {2, 5, 8})
      for (double octaves = -9; octaves <= 9; ++octaves) {
        Cost cost = cost_at(octaves);
        const auto plain = replay(entry.collective, build_all(entry, {0, ranks, 0, 1}), claims_of(entry), cost).end;
        cost.block /= 4;
        const auto cut = replay(entry.collective, build_all(entry, {0, ranks, 0, 4}), claims_of(entry), cost).end;
        CHECK_MESSAGE(cut >= plain - plain / 1000, name_of(entry.collective), ' ', std::string(entry.name), " ranks ",
                      ranks);
      }
  }
}

TEST_CASE("wrong plans have no pace") {
  std::vector<Plan> plans = build_all(*find(Collective::all_reduce, "tree").entry, {0, 4});
  plans[2].steps.front().peer = 1;
  CHECK(paces(Collective::all_reduce, plans, {}).empty());
}

}  // namespace
}  // namespace tutti::algorithms::testing
