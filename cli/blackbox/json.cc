// Boxes for programs.

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "cli/blackbox/words.h"
#include "lib/collective/call.h"
#include "tutti/types.h"

namespace tutti::cli {
namespace {

using black_box::CallRecord;
using black_box::OperationRecord;
using black_box::Snapshot;
using black_box::State;
using Json = nlohmann::ordered_json;

double in_seconds(std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e9; }

Json json_of(const OperationRecord& entry, const Snapshot& box) {
  const CallRecord& call = entry.call;
  Json json{{"number", entry.number},
            {"communicator", fmt::format("{:x}", call.group)},
            {"communicator_name", name_of_group(entry, box)},
            {"call", describe(call)}};
  if (is_message(call)) {
    json["operation"] = call.collective == black_box::send      ? "send"
                        : call.collective == black_box::receive ? "recv"
                                                                : "probe";
    json["peer"] = call.root;
    json["tag"] = call.tag;
  } else {
    json["operation"] = call.operation;
    json["collective"] = call.collective < collective_count ? name_of(static_cast<Collective>(call.collective)) : "?";
    json["variable"] = (call.flags & black_box::Flags::variable) != 0;
    json["algorithm"] = call.algorithm.data();
    json["op"] = name_of(static_cast<OpKind>(call.op));
    json["root"] = call.root;
    const bool in_rounds = (call.flags & black_box::Flags::on_board) != 0;
    json[in_rounds ? "rounds" : "steps"] = call.parts;
    json[in_rounds ? "rounds_done" : "steps_done"] = entry.parts_done;
  }
  json["type"] = type_of(call);
  json["count"] = detail::elements_of(call.count, (call.flags & black_box::Flags::variable) != 0);
  json["bytes"] = entry.bytes;
  json["started"] = in_seconds(wall_clock(call, call.started));
  json["started_monotonic"] = in_seconds(call.started);
  if (entry.state != State::started) json["ended"] = in_seconds(wall_clock(call, entry.ended));
  json["seconds"] = is_timed(entry, box) ? Json(seconds_in(entry, box)) : Json(nullptr);
  json["state"] = entry.state == State::started ? "started" : name_of_state(entry.state);
  if (entry.state == State::failed) {
    json["error"] = name_of(static_cast<ErrorCode>(entry.code));
    json["culprit"] = entry.culprit;
    json["failure"] = entry.failure;
  }
  return json;
}

}  // namespace

std::string as_json(std::span<const Snapshot> boxes, std::size_t most, const std::vector<std::string>& findings) {
  Json ranks = Json::array();
  for (const Snapshot& box : boxes) {
    Json operations = Json::array();
    for (const OperationRecord& entry : newest(box, most)) operations.push_back(json_of(entry, box));
    ranks.push_back({{"rank", box.rank},
                     {"size", box.size},
                     {"host", box.host},
                     {"pid", box.pid},
                     {"job", box.job},
                     {"version", box.version},
                     {"operations", operations}});
  }
  // The text of a killed rank or of a foreign file may not be valid UTF-8.
  return Json{{"ranks", ranks}, {"findings", findings}}.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tutti::cli
