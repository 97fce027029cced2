// Plans for other programs.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "algorithms/describe.h"
#include "tools/plan_view.h"

namespace tutti::tools {
namespace {

using Json = nlohmann::ordered_json;
using algorithms::Blocks;
using algorithms::Plan;
using algorithms::Step;
using algorithms::StepId;

Json json_of(const Blocks& blocks) {
  return {{"buffer", name_of(blocks.buffer)}, {"first", blocks.first}, {"count", blocks.count}};
}

Json json_of(const Step& step) {
  Json json{{"verb", name_of(step.verb)}};
  if (!algorithms::is_local(step.verb)) json["peer"] = step.peer;
  if (algorithms::writes_dst(step.verb)) json["dst"] = json_of(step.dst);
  if (algorithms::reads_left(step.verb)) json["left"] = json_of(step.left);
  if (algorithms::reads_right(step.verb)) json["right"] = json_of(step.right);
  json["after"] = Json::array();
  return json;
}

Json json_of(const Plan& plan) {
  Json steps = Json::array();
  for (const Step& step : plan.steps) steps.push_back(json_of(step));
  for (StepId step = 0; step < plan.steps.size(); ++step)
    for (const StepId next : plan.successors(step)) steps[next]["after"].push_back(step);
  return {{"rank", plan.shape.rank}, {"scratch_like", plan.scratch_like}, {"steps", steps}};
}

Json json_of(const algorithms::Verdict& verdict) {
  return {{"ok", verdict.ok()},
          {"problems", verdict.problems},
          {"slots", verdict.slots},
          {"messages", verdict.messages},
          {"rounds", verdict.rounds},
          {"busiest_blocks", verdict.busiest_blocks},
          {"scratch_blocks", verdict.scratch_blocks}};
}

}  // namespace

std::string to_json(const View& view, const std::vector<int>& ranks, const std::string& why) {
  const algorithms::Shape& shape = view.shape;
  Json json{{"collective", name_of(view.collective)},
            {"algorithm", to_string(view.choice)},
            {"ranks", shape.ranks},
            {"root", shape.root},
            {"pipeline", shape.pipeline},
            {"radix", shape.radix},
            {"blocks", shape.ranks * shape.pipeline}};
  if (!why.empty()) json["why"] = why;
  if (view.complete()) json["verdict"] = json_of(view.verdict);
  json["plans"] = Json::array();
  for (const Plan& plan : view.plans)
    if (std::find(ranks.begin(), ranks.end(), plan.shape.rank) != ranks.end()) json["plans"].push_back(json_of(plan));
  return json.dump(1) + "\n";
}

std::string list_as_json(const std::vector<Collective>& collectives) {
  Json json = Json::array();
  for (const Collective collective : collectives)
    for (const algorithms::Entry& entry : algorithms::catalogue(collective))
      json.push_back({{"collective", name_of(collective)},
                      {"name", entry.name},
                      {"has_radix", entry.has_radix},
                      {"has_pipeline", entry.has_pipeline},
                      {"equal_parts", entry.equal_parts},
                      {"rank_order", entry.rank_order},
                      {"idea", entry.idea}});
  return json.dump(1) + "\n";
}

}  // namespace tutti::tools
