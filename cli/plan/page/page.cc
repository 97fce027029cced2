// The page: the template from the build, filled in with the plans and with what to show first.

#include "cli/plan/page/page.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/base/input_file.h"
#include "cli/base/text.h"
#include "cli/measure/call.h"
#include "cli/plan/page/template.h"
#include "lib/base/collective_traits.h"
#include "tutti/error.h"

namespace tutti::cli {
namespace {

using Json = nlohmann::ordered_json;
using algorithms::Choice;

constexpr std::size_t most_page_bytes = 400'000;

[[noreturn]] void refuse_page(const std::string& message) {
  throw Error(ErrorCode::invalid_argument, "plan: " + message);
}

/// Algorithms by their names on the page, in the order of their plans.
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
    if (!choice.domains.empty())
      refuse_page(fmt::format(
          "a page has the plans for {} to {} ranks, and {} is for {} only; give {} a radix, or leave "
          "--html away",
          fewest_ranks_on_page, most_ranks_on_page, to_string(choice), choice.domains.size(), choice.entry->name));
    const Json item{{"collective", name_of(collective)}, {"name", to_string(choice)}, {"idea", choice.entry->idea}};
    if (std::find(list_.begin(), list_.end(), item) != list_.end()) return;
    list_.push_back(item);
    plans_.add(collective, choice, start_.root, start_.model.bytes);
  }

  const PageStart& start_;
  Json list_ = Json::array();
  PagePlans plans_;
};

const char* name_of(detail::Fold fold) {
  switch (fold) {
    case detail::Fold::none:
      return "none";
    case detail::Fold::all:
      return "all";
    case detail::Fold::up_to_self:
      return "up_to_self";
    case detail::Fold::before_self:
      return "before_self";
  }
  return "";
}

/// What the page needs to know of a collective to play its plans.
Json json_of(const detail::CollectiveTraits& traits) {
  return {{"purpose", traits.purpose},
          {"has_input", traits.input.extent != detail::Extent::nothing},
          {"only_root_has_input", traits.input.holders == detail::Holders::root},
          {"input_is_own_part", traits.gathers()},
          {"one_buffer", traits.in_place == detail::InPlace::always},
          {"fold", name_of(traits.fold)}};
}

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
    points.push_back({{"collective", name_of(point.collective)},
                      {"algorithm", point.algorithm},
                      {"ranks", point.ranks},
                      {"bytes", point.bytes},
                      {"microseconds", point.microseconds}});
  Json json{{"start", json_of(start)}, {"fewest_ranks", fewest_ranks_on_page}, {"most_ranks", most_ranks_on_page}};
  for (const detail::CollectiveTraits& traits : detail::collective_traits)
    json["collectives"][traits.name] = json_of(traits);
  json["catalogue"] = catalogue.take_list();
  json["points"] = points;
  json["plans"] = catalogue.plans();
  if (start.run) json["run"] = Json::parse(to_json(*start.run));
  return json;
}

/// JSON within a <script> element, which names must not be able to close.
std::string embedded(const Json& json) {
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  for (std::size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at))
    text.replace(at, 1, "\\u003c");
  return text;
}

/// One row of `tutti bench -J`, or its error.
class ResultRow {
 public:
  ResultRow(const Json& row, std::size_t number, const std::string& path) : row_(row), number_(number), path_(path) {}

  template <class T>
  T get(const char* field, Json::value_t kind, const char* what) const {
    const auto found = row_.find(field);
    if (found == row_.end()) refuse(fmt::format("has no \"{}\"", field));
    if (found->type() != kind) refuse(fmt::format("has a wrong \"{}\": it is no {}", field, what));
    return found->template get<T>();
  }

  /// The time in place if it was measured both ways, as calls mostly are; nothing if it was not measured.
  std::optional<double> time() const {
    bool named = false;
    for (const char* placement : {"in_place", "out_of_place"}) {
      const auto found = row_.find(placement);
      named = named || found != row_.end();
      if (found == row_.end() || !found->is_object()) continue;
      const auto time = found->find("time");
      if (time == found->end()) refuse(fmt::format("has no \"time\" in \"{}\"", placement));
      if (time->is_number() && time->get<double>() > 0) return time->get<double>();
    }
    if (!named) refuse("has neither \"in_place\" nor \"out_of_place\"");
    return std::nullopt;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    refuse_page(
        fmt::format("{} was not written by tutti bench -J FILE: row {} of its \"results\" {}", path_, number_, what));
  }

  const Json& row_;
  std::size_t number_;
  const std::string& path_;
};

}  // namespace

std::vector<MeasuredPoint> read_points(const std::string& path) {
  const Json json = Json::parse(read_input("plan", path), nullptr, false);
  const auto refuse = [&](const char* what) {
    refuse_page(fmt::format("{} was not written by tutti bench -J FILE: {}", path, what));
  };
  if (json.is_discarded()) refuse("it is not JSON, or cut off");
  if (!json.is_object() || !json.contains("results") || !json["results"].is_array()) refuse("it has no \"results\"");
  const auto config = json.find("config");
  if (config == json.end() || !config->contains("devices") || !(*config)["devices"].is_array())
    refuse("it has no \"devices\" in \"config\", which tell how many ranks there were");
  const int ranks = static_cast<int>((*config)["devices"].size());
  const auto facts = json.find("tutti");
  if (facts == json.end() || !facts->is_object()) refuse("it has no \"tutti\", which tells what was measured");
  if (!facts->contains("collective"))
    refuse_page(fmt::format("{}: an older tutti wrote it, which does not say what was measured; measure again", path));
  if (!(*facts)["collective"].is_string()) refuse("the \"collective\" in \"tutti\" is no name");
  const auto call = measure::find_call((*facts)["collective"].get<std::string>());
  if (!call || !call->is_collective()) refuse("the \"collective\" in \"tutti\" is none that has plans");
  std::vector<MeasuredPoint> points;
  for (std::size_t i = 0; i < json["results"].size(); ++i) {
    const ResultRow row{json["results"][i], i + 1, path};
    MeasuredPoint point{.collective = call->collective,
                        .algorithm = row.get<std::string>("algorithm", Json::value_t::string, "name"),
                        .ranks = ranks};
    point.bytes = row.get<std::size_t>("size", Json::value_t::number_unsigned, "number of bytes");
    const std::optional<double> time = row.time();
    if (!time) continue;
    point.microseconds = *time;
    points.push_back(std::move(point));
  }
  if (points.empty()) refuse_page(fmt::format("{} has no times in it", path));
  return points;
}

std::string to_html(const PageStart& start) {
  std::string page = page_template;
  const std::string mark = "@DATA@";
  page.replace(page.find(mark), mark.size(), embedded(json_of(start, Catalogue{start})));
  if (page.size() >= most_page_bytes && start.run)
    refuse_page(fmt::format(
        "{} has {}, with which the page would take {} kB, and it is to stay below {}; name another call by "
        "--call, or another plan by collective, --algo or -n",
        start.run->calls[start.run->first].name, plural(start.run->calls[start.run->first].messages.size(), "message"),
        page.size() / 1000, most_page_bytes / 1000));
  if (page.size() >= most_page_bytes)
    refuse_page(fmt::format("the page would take {} kB, and is to stay below {}; choose a smaller pipeline",
                            page.size() / 1000, most_page_bytes / 1000));
  return page;
}

}  // namespace tutti::cli
