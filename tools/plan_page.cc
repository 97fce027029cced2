// The page: the template that the build made, filled in with what plans there are and what to show first.

#include "tools/plan_page.h"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tools/bench_names.h"
#include "tools/plan_page_template.h"
#include "tutti/error.h"

namespace tutti::tools {
namespace {

using Json = nlohmann::ordered_json;
using algorithms::Choice;

constexpr std::size_t most_bytes = 300'000;

[[noreturn]] void wrong(const std::string& message) { throw Error(ErrorCode::invalid_argument, "plan: " + message); }

/// Algorithms by the names that the page gives them, in the order of their plans.
class Catalogue {
 public:
  explicit Catalogue(const PageStart& start) : start_(start) {
    for (const algorithms::Entry& entry : algorithms::catalogue()) add(entry.collective, Choice{&entry});
    for (const Choice& choice : start.choices) add(start.collective, choice);
  }

  Json take_list() { return std::move(list_); }
  std::string plans() const { return plans_.text(); }

 private:
  void add(Collective collective, const Choice& choice) {
    const Json item{{"collective", name_of(collective)}, {"name", to_string(choice)}, {"idea", choice.entry->idea}};
    if (std::find(list_.begin(), list_.end(), item) != list_.end()) return;
    list_.push_back(item);
    plans_.add(collective, choice, start_.root, start_.model.bytes);
  }

  const PageStart& start_;
  Json list_ = Json::array();
  PagePlans plans_;
};

Json json_of(const PageStart& start) {
  Json names = Json::array();
  for (const Choice& choice : start.choices) names.push_back(to_string(choice));
  return {{"collective", name_of(start.collective)},
          {"algorithms", names},
          {"ranks", start.ranks},
          {"step", start.step},
          {"bytes", start.model.bytes},
          {"latency_us", start.model.latency_us},
          {"gigabytes_per_s", start.model.gigabytes_per_s}};
}

Json json_of(const PageStart& start, Catalogue catalogue) {
  Json points = Json::array();
  for (const MeasuredPoint& point : start.points)
    points.push_back({{"algorithm", point.algorithm},
                      {"ranks", point.ranks},
                      {"bytes", point.bytes},
                      {"microseconds", point.microseconds}});
  Json json{{"start", json_of(start)}, {"fewest_ranks", fewest_ranks_on_page}, {"most_ranks", most_ranks_on_page}};
  json["catalogue"] = catalogue.take_list();
  json["points"] = points;
  json["plans"] = catalogue.plans();
  if (start.run) json["run"] = Json::parse(to_json(*start.run));
  return json;
}

/// As text between <script> and </script>, which names may not end.
std::string embedded(const Json& json) {
  std::string text = json.dump();
  for (std::size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at))
    text.replace(at, 1, "\\u003c");
  return text;
}

/// In place where it was measured both ways, as calls mostly are.
std::optional<double> time_of(const Json& row) {
  for (const char* placement : {"in_place", "out_of_place"}) {
    const auto found = row.find(placement);
    if (found == row.end() || !found->is_object()) continue;
    const auto time = found->find("time");
    if (time != found->end() && time->is_number() && time->get<double>() > 0) return time->get<double>();
  }
  return std::nullopt;
}

}  // namespace

std::vector<MeasuredPoint> read_points(const std::string& path) {
  std::ifstream file{path};
  if (!file) wrong(fmt::format("cannot read {}", path));
  const Json json = Json::parse(file, nullptr, false);
  if (!json.is_object() || !json.contains("results") || !json["results"].is_array())
    wrong(fmt::format("{} is no file of tutti bench -J FILE: it has no \"results\"", path));
  std::vector<MeasuredPoint> points;
  try {
    const int ranks = static_cast<int>(json.at("config").at("devices").size());
    for (const Json& row : json["results"])
      if (const std::optional<double> time = time_of(row))
        points.push_back({row.at("algorithm").get<std::string>(), ranks, row.at("size").get<std::size_t>(), *time});
  } catch (const Json::exception& error) {
    wrong(fmt::format("{} is no file of tutti bench -J FILE: {}", path, error.what()));
  }
  if (points.empty()) wrong(fmt::format("{} has no times in it", path));
  return points;
}

std::string to_html(const PageStart& start) {
  std::string page = page_template;
  const std::string mark = "@DATA@";
  page.replace(page.find(mark), mark.size(), embedded(json_of(start, Catalogue{start})));
  if (page.size() >= most_bytes)
    wrong(fmt::format("the page would take {} kB, and is to stay below {}; choose a smaller pipeline",
                      page.size() / 1000, most_bytes / 1000));
  return page;
}

}  // namespace tutti::tools
