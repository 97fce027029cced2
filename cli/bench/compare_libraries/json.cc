#include <nlohmann/json.hpp>

#include "cli/bench/compare_libraries/report.h"
#include "cli/bench/report.h"
#include "tutti/version.h"

namespace tutti::cli::versus {

using Json = nlohmann::ordered_json;

namespace {

Json number(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json of_side(const Comparison& comparison, const std::string& side) {
  Json cell = Json::object();
  if (const auto figure = comparison.of(side)) {
    cell = {{"us", figure->median},
            {"least_us", figure->least},
            {"most_us", figure->most},
            {"rows", figure->rows},
            {"setting", figure->setting}};
  }
  const auto trouble = comparison.troubles.find(side);
  if (trouble != comparison.troubles.end()) cell["trouble"] = trouble->second;
  return cell;
}

Json of_score(const Score& score) {
  if (score.points == 0) return nullptr;
  const Point& where = score.where;
  return {{"points", score.points},
          {"geometric_mean", score.mean},
          {"worst", score.worst},
          {"worst_at", {{"collective", measure::name_of(where.call)}, {"ranks", where.ranks}, {"size", where.size}}},
          {"below_1", score.below_1}};
}

Json of_standings(const Report& report) {
  Json all = Json::array();
  for (const Standing& one : report.standings) {
    const auto version = report.versions.find(one.side);
    all.push_back({{"transport", one.transport},
                   {"library", one.side},
                   {"version", version == report.versions.end() ? Json(nullptr) : Json(version->second)},
                   {"best", of_score(one.best)},
                   {"as_shipped", of_score(one.shipped)}});
  }
  return all;
}

}  // namespace

std::string json_document(const Report& report, const std::vector<std::string>& arguments) {
  Json points = Json::array();
  for (const Comparison& one : report.comparisons) {
    Json cells = Json::object();
    for (const std::string& side : report.sides) cells[side] = of_side(one, side);
    points.push_back({{"collective", measure::name_of(one.point.call)},
                      {"transport", one.point.transport},
                      {"ranks", one.point.ranks},
                      {"size", one.point.size},
                      {"state", name_of(one.state)},
                      {"time", one.by_loop ? "loop" : "single"},
                      {"sides", cells},
                      {"ratio", number(one.ratio())},
                      {"to_limit", number(one.to_limit())}});
  }
  const Json document{{"version", 1},
                      {"args", arguments},
                      {"tutti", {{"version", TUTTI_VERSION}, {"notes", report.notes}}},
                      {"end_time", bench::local_time()},
                      {"libraries", of_standings(report)},
                      {"points", points}};
  return document.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";  // paths may be in any encoding
}

}  // namespace tutti::cli::versus
