#include "cli/bench/compare_libraries/figures.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "cli/bench/compare_libraries/settings.h"
#include "cli/measure/median.h"

namespace tutti::cli::versus {
namespace {

constexpr std::string_view own = "tutti";
constexpr std::string_view limit = "limit";

std::vector<double> times_in(State state, const std::vector<const Row*>& rows) {
  std::vector<double> times;
  for (const Row* row : rows)
    if (row->good() && row->state == state) times.push_back(row->time());
  return times;
}

/// There are two rows or more, and even the fastest is far behind another rival's median: the setting cannot become the
/// best. The setting `as_shipped` is a column of its own, so it is never left out.
bool is_hopeless(const Ledger& ledger, const Point& point, const Setting& setting, State state) {
  constexpr double far_behind = 1.5;
  if (setting.name == as_shipped) return false;
  const std::vector<double> mine = times_in(state, ledger.of(point, setting.side, setting.name));
  if (mine.size() < 2) return false;
  const Comparison comparison = compare_in(state, ledger.rows(), point);
  const std::string best = comparison.best_peer();
  if (best.empty()) return false;
  const Figure figure = comparison.sides.at(best);
  return figure.rows >= 2 && *std::min_element(mine.begin(), mine.end()) > far_behind * figure.median;
}

}  // namespace

bool is_peer(std::string_view side) { return side != own && side != limit && side != own_in_torch; }

double geometric_mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += std::log(value);
  return values.empty() ? 0 : std::exp(sum / static_cast<double>(values.size()));
}

std::optional<Figure> Comparison::of(const std::string& side) const {
  const auto found = sides.find(side);
  return found == sides.end() ? std::nullopt : std::optional{found->second};
}

std::string Comparison::best_peer() const {
  std::string best;
  for (const auto& [side, figure] : sides)
    if (is_peer(side) && (best.empty() || figure.median < sides.at(best).median)) best = side;
  return best;
}

std::string Comparison::own_beside(const std::string& side) const {
  const bool in_torch = side == "torch-gloo" && of(std::string{own_in_torch});
  return std::string{in_torch ? own_in_torch : own};
}

std::optional<double> Comparison::ratio_of(const std::string& side) const {
  const auto theirs = of(side);
  const auto mine = of(own_beside(side));
  if (!theirs || !mine) return {};
  return theirs->median / mine->median;
}

std::optional<double> Comparison::to_limit() const {
  const auto mine = of(std::string{own});
  const auto least = of(std::string{limit});
  if (!mine || !least || least->median <= 0) return {};
  return mine->median / least->median;
}

Comparison compare_in(State state, std::span<const Row> rows, const Point& point, bool in_allocated) {
  Comparison comparison{point, state, false, {}, {}};
  std::map<std::pair<std::string, std::string>, std::vector<double>> times;
  for (const Row& row : rows) {
    if (row.point != point) continue;
    comparison.by_loop = row.by_loop();
    if (row.wrong > 0) comparison.troubles[row.side] = "WRONG DATA";
    if (!row.trouble.empty())
      comparison.troubles.try_emplace(row.side, row.side == own ? row.setting + ": " + row.trouble : row.trouble);
    const bool wanted = row.side != own || (row.setting == allocated) == in_allocated;
    if (row.good() && row.state == state && wanted) times[{row.side, row.setting}].push_back(row.time());
  }
  for (auto& [who, values] : times) {
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    const Figure figure{measure::median(values), *least, *most, static_cast<int>(values.size()), who.second};
    const auto [place, is_new] = comparison.sides.try_emplace(who.first, figure);
    if (!is_new && figure.median < place->second.median) place->second = figure;
  }
  for (const auto& [side, figure] : comparison.sides)
    if (side != own && comparison.troubles[side] != "WRONG DATA") comparison.troubles.erase(side);
  return comparison;
}

Comparison compare(std::span<const Row> rows, const Point& point) {
  Comparison best = compare_in(usual_state(rows), rows, point);
  if (best.ratio()) return best;
  const auto worth = [](const Comparison& one) {
    const auto measured = std::ranges::count_if(one.sides, [](const auto& side) { return side.first != limit; });
    return std::pair{one.ratio().has_value(), measured};
  };
  for (const State state : {State::near, State::far, State::alone}) {
    Comparison other = compare_in(state, rows, point);
    if (worth(other) > worth(best)) best = std::move(other);
  }
  return best;
}

bool needs_more(const Ledger& ledger, const Point& point, const Setting& setting, int repetitions, bool usual_only) {
  const std::vector<const Row*> rows = ledger.of(point, setting.side, setting.name);
  std::map<State, int> counts;
  for (const Row* row : rows) {
    if (!row->trouble.empty()) return false;
    ++counts[row->state];
  }
  State state = usual_state(ledger.rows());
  for (const auto& [other, count] : counts) {
    const bool counts_too = other == State::alone || (other != State::mixed && !usual_only);
    if (counts_too && count > counts[state]) state = other;
  }
  if (counts[state] >= repetitions || static_cast<int>(rows.size()) >= 2 * repetitions) return false;
  return !is_peer(setting.side) || !is_hopeless(ledger, point, setting, state);
}

std::vector<Point> points_of(std::span<const Row> rows) {
  std::set<Point> points;
  for (const Row& row : rows) points.insert(row.point);
  return {points.begin(), points.end()};
}

}  // namespace tutti::cli::versus
