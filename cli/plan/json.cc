// Plans as JSON, for other programs.

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "algorithms/describe.h"
#include "cli/plan/replay.h"
#include "cli/plan/view.h"

namespace tutti::cli {
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

double microseconds(algorithms::Ticks picoseconds) { return static_cast<double>(picoseconds) / 1e6; }

Json json_of(const algorithms::Verdict& verdict) {
  Json json{{"ok", verdict.ok()},
            {"problems", verdict.problems},
            {"slots", verdict.slots},
            {"messages", verdict.messages},
            {"rounds", verdict.rounds},
            {"busiest_blocks", verdict.busiest_blocks},
            {"scratch_blocks", verdict.scratch_blocks}};
  if (verdict.in_order) json["in_order"] = *verdict.in_order;
  return json;
}

constexpr std::size_t most_cells = 200'000;  // of all frames together

Json bounds_of(const View& view, const Replays& replays) {
  const algorithms::Bounds bounds = algorithms::lower_bounds(view.collective, view.shape.ranks);
  const double blocks = view.shape.ranks * view.shape.pipeline;
  return {{"steps", bounds.steps},
          {"sent_blocks", bounds.sent * blocks},
          {"received_blocks", bounds.received * blocks},
          {"reduced_blocks", bounds.reduced * blocks},
          {"microseconds", microseconds(least_time(bounds, replays.model))}};
}

/// In the order of their steps, with times of the model.
Json messages_of(const Replays& replays) {
  std::map<std::pair<int, StepId>, const algorithms::ReplayMessage*> timed;
  for (const algorithms::ReplayMessage& message : replays.time.messages) timed[{message.from, message.send}] = &message;
  Json json = Json::array();
  for (const algorithms::ReplayMessage& message : replays.steps.messages) {
    const algorithms::ReplayMessage& in_time = *timed.at({message.from, message.send});
    json.push_back({{"from", message.from},
                    {"to", message.to},
                    {"send", message.send},
                    {"recv", message.recv},
                    {"blocks", message.blocks},
                    {"step", message.end},
                    {"begin", microseconds(in_time.begin)},
                    {"end", microseconds(in_time.end)}});
  }
  return json;
}

Json json_of(const algorithms::ReplayFrame& frame, const algorithms::Replay& replay) {
  Json held = Json::array();
  Json apart = Json::array();
  for (int rank = 0; rank < replay.ranks; ++rank) {
    Json row = Json::array();
    for (int block = 0; block < replay.blocks; ++block) {
      const algorithms::Held& cell = frame.held[replay.cell(rank, block)];
      row.push_back(cell.all);
      if (cell.all != cell.largest) apart.push_back({{"rank", rank}, {"block", block}, {"largest", cell.largest}});
    }
    held.push_back(row);
  }
  return {{"step", frame.at}, {"messages", frame.messages}, {"held", held}, {"apart", apart}};
}

/// Adds what happens when the plans run.
void add_course(const View& view, const Replays& replays, Json& json) {
  const Loads loads = busiest(view);
  const Model& model = replays.model;
  json["model"] = {
      {"bytes", model.bytes}, {"latency_us", model.latency_us}, {"gigabytes_per_s", model.gigabytes_per_s}};
  json["cost"] = {{"steps", replays.steps.end},
                  {"sent_blocks", loads.sent},
                  {"received_blocks", loads.received},
                  {"reduced_blocks", loads.reduced},
                  {"microseconds", microseconds(replays.time.end)}};
  json["bounds"] = bounds_of(view, replays);
  json["messages"] = messages_of(replays);
  if (replays.frames.size() * replays.steps.start.size() > most_cells) return;
  json["sets"] = replays.steps.sets;
  json["frames"] = Json::array();
  for (const algorithms::ReplayFrame& frame : replays.frames) json["frames"].push_back(json_of(frame, replays.steps));
}

}  // namespace

std::string to_json(const View& view, const Replays& replays, const std::vector<int>& ranks, const std::string& why) {
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
  if (!replays.empty()) add_course(view, replays, json);
  json["plans"] = Json::array();
  for (const Plan& plan : view.plans)
    if (std::find(ranks.begin(), ranks.end(), plan.shape.rank) != ranks.end()) json["plans"].push_back(json_of(plan));
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";  // paths may be in any encoding
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

}  // namespace tutti::cli
