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

}  // namespace

std::string json_document(std::span<const Comparison> comparisons, const std::vector<std::string>& sides,
                          const std::vector<std::string>& notes, const std::vector<std::string>& arguments) {
  Json points = Json::array();
  for (const Comparison& one : comparisons) {
    Json cells = Json::object();
    for (const std::string& side : sides) cells[side] = of_side(one, side);
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
                      {"tutti", {{"version", TUTTI_VERSION}, {"notes", notes}}},
                      {"end_time", bench::local_time()},
                      {"points", points}};
  return document.dump(1) + "\n";
}

}  // namespace tutti::cli::versus
