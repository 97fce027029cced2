// Programs of MSCCL: a program that was written and read again is the same, and an error is reported at its place.

#include "cli/plan/interchange/msccl.h"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/catalogue.h"
#include "algorithms/check.h"
#include "algorithms/describe.h"
#include "cli/plan/interchange/msccl_import.h"
#include "tests/support/sample.h"
#include "tutti/error.h"

#ifdef TUTTI_HAS_PUGIXML

namespace tutti::cli::interchange {
namespace {

using algorithms::Entry;
using algorithms::Plan;

std::vector<Plan> plans_of(const Entry& entry, int ranks, int root, int pipeline) {
  std::vector<Plan> plans;
  for (int rank = 0; rank < ranks; ++rank) plans.push_back(entry.build({rank, ranks, root, pipeline, 2}));
  return plans;
}

/// Per link, the blocks of each message in order.
std::map<std::pair<int, int>, std::vector<int>> traffic(const std::vector<Plan>& plans) {
  std::map<std::pair<int, int>, std::vector<int>> links;
  for (const Plan& plan : plans)
    for (const algorithms::Step& step : plan.steps)
      if (algorithms::sends(step.verb)) links[{plan.shape.rank, step.peer}].push_back(step.left.count);
  return links;
}

void check_round_trip(const Entry& entry, int ranks, int root, int pipeline) {
  CAPTURE(std::string{name_of(entry.collective)});
  CAPTURE(entry.name);
  CAPTURE(ranks);
  CAPTURE(root);
  CAPTURE(pipeline);
  const std::vector<Plan> plans = plans_of(entry, ranks, root, pipeline);
  const algorithms::Verdict before =
      check(entry.collective, plans, {.equal_parts = entry.equal_parts, .rank_order = entry.rank_order});
  const std::string xml = to_xml(msccl_program("there_and_back", entry.collective, plans));
  const algorithms::CheckedPlans imported = import_program(parse_msccl(xml, "there_and_back.xml"));
  REQUIRE_MESSAGE(imported.verdict.ok(), imported.verdict.problems.front());
  CHECK(imported.given.collective == entry.collective);
  CHECK(imported.given.plans.size() == static_cast<std::size_t>(ranks));
  CHECK(imported.given.plans[0].shape == plans[0].shape);
  // With few ranks more is true than what an algorithm claims for any number.
  CHECK((imported.given.rank_order || !entry.rank_order));
  CHECK((entry.equal_parts || !imported.given.equal_parts));
  CHECK(imported.verdict.messages == before.messages);
  CHECK(imported.verdict.busiest_blocks == before.busiest_blocks);
  CHECK(traffic(imported.given.plans) == traffic(plans));
}

TEST_CASE("every algorithm goes to MSCCL and back with the same messages") {
  int tried = 0;
  tutti::testing::Lot lot{1, 8};
  for (const Entry& entry : algorithms::catalogue()) {
    if (msccl_name(entry.collective).empty()) continue;
    for (int ranks = 2; ranks <= 16; ++ranks) {
      ++tried;
      if (ranks > 5 && !lot.draws()) continue;
      check_round_trip(entry, ranks, 0, 1);
      if (detail::is_rooted(entry.collective)) check_round_trip(entry, ranks, ranks - 1, 1);
      if (entry.has_pipeline) check_round_trip(entry, ranks, ranks / 2 * detail::is_rooted(entry.collective), 3);
    }
  }
  CHECK(tried > 400);
}

}  // namespace
}  // namespace tutti::cli::interchange

#endif
