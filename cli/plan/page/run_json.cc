// A run in the format of the page. Each message has four numbers; those of its end are relative to its beginning.

#include <nlohmann/json.hpp>

#include "cli/plan/page/page.h"
#include "cli/plan/page/run.h"

namespace tutti::cli {
namespace {

using Json = nlohmann::ordered_json;

Json spans(const std::vector<Span>& all) {
  Json numbers = Json::array();
  for (const Span& span : all) {
    numbers.push_back(span.begin);
    numbers.push_back(span.end);
  }
  return numbers;
}

Json blame_of(const ReplayedCall& call) {
  Json rows = Json::array();
  for (const RankBlame& blame : call.blame) rows.push_back({blame.waited, blame.late.time, blame.slow.time});
  return rows;
}

Json verdict_of(const ReplayedCall& call) {
  Json conclusions = Json::array();
  for (const Conclusion& conclusion : call.verdict)
    conclusions.push_back({{"text", conclusion.text}, {"ranks", conclusion.ranks}, {"links", conclusion.links}});
  return conclusions;
}

Json json_of(const ReplayedCall& call, bool groups) {
  Json messages = Json::array();
  for (const ReplayedMessage& message : call.messages)
    for (const std::int64_t number : {message.given, message.received - message.given, message.predicted_begin,
                                      message.predicted_end - message.predicted_begin})
      messages.push_back(number);
  Json waits = Json::array();
  for (const std::vector<Span>& mine : call.waits) waits.push_back(spans(mine));
  return {{"id", std::to_string(call.operation) + (groups ? "@" + call.group : "")},
          {"name", call.name + (groups ? " of " + call.group : "")},
          {"bytes", call.bytes},
          {"members", call.members},
          {"end", call.end},
          {"predicted", call.predicted},
          {"in_call", spans(call.in_call)},
          {"messages", messages},
          {"waits", waits},
          {"blame", blame_of(call)},
          {"verdict", verdict_of(call)}};
}

}  // namespace

std::size_t size_on_page(const ReplayedCall& call) { return json_of(call, true).dump().size(); }

std::string to_json(const Run& run) {
  PagePlans plan;
  plan.add_one(run.simulated.collective, run.simulated.choice, run.simulated.ranks, run.simulated.root);
  Json calls = Json::array();
  for (const ReplayedCall& call : run.calls) calls.push_back(json_of(call, run.groups));
  return Json{{"file", run.file},
              {"collective", name_of(run.simulated.collective)},
              {"name", to_string(run.simulated.choice)},
              {"idea", run.simulated.choice.entry->idea},
              {"ranks", run.simulated.ranks},
              {"plan", plan.text()},
              {"found", run.found},
              {"first", run.first},
              {"calls", calls}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);  // paths may be in any encoding
}

}  // namespace tutti::cli
