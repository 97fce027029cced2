#include "cli/bench/compare_libraries/standings.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "cli/bench/compare_libraries/report.h"
#include "cli/bench/compare_libraries/settings.h"

namespace tutti::cli::versus {
namespace {

std::vector<Row> without_best_settings(std::span<const Row> rows) {
  std::vector<Row> kept;
  for (const Row& row : rows)
    if (row.setting == shipped_setting(row.side, row.point, row.cores)) kept.push_back(row);
  return kept;
}

class Scorer {
 public:
  explicit Scorer(std::span<const Row> rows) : rows_(rows), usual_(usual_state(rows)) {}

  Score score(const std::string& side, const std::string& transport, std::span<const Point> points,
              std::span<const Row> rows) const {
    Score score;
    std::vector<double> ratios;
    for (const Point& point : points) {
      if (point.transport != transport) continue;
      const auto ratio = ratio_at(point, side, rows);
      if (!ratio) continue;
      if (ratios.empty() || *ratio < score.worst) score.worst = *ratio, score.where = point;
      if (*ratio < 1) ++score.below_1;
      ratios.push_back(*ratio);
    }
    score.points = static_cast<int>(ratios.size());
    score.mean = geometric_mean(ratios);
    return score;
  }

  std::set<std::string> libraries() const {
    std::set<std::string> all;
    for (const Row& row : rows_)
      if (is_peer(row.side)) all.insert(row.side);
    return all;
  }

 private:
  std::optional<double> ratio_at(const Point& point, const std::string& side, std::span<const Row> rows) const {
    for (const State state : {usual_, State::alone}) {
      const Comparison comparison = compare_in(state, rows, point);
      if (const auto ratio = side == best_of_all ? comparison.ratio() : comparison.ratio_of(side)) return ratio;
    }
    return {};
  }

  std::span<const Row> rows_;
  State usual_;
};

/// "shm, impi (Intel(R) MPI Library 2021.19.0)"
std::string label_of(const Standing& standing, const Versions& versions) {
  if (standing.side == best_of_all) return standing.transport + ", the best of all";
  const auto found = versions.find(standing.side);
  const std::string version = found == versions.end() ? "" : fmt::format(" ({})", found->second);
  return fmt::format("{}, {}{}", standing.transport, standing.side, version);
}

std::string columns_of(const Score& score) {
  if (score.points == 0) return fmt::format("{:>6} {:>6} {:>6} {:>7}", "-", "-", "-", "-");
  return fmt::format("{:>6} {:>6.2f} {:>6.2f} {:>7}", score.points, score.mean, score.worst, score.below_1);
}

}  // namespace

std::vector<Standing> standings(std::span<const Row> rows, std::span<const Point> points) {
  const Scorer scorer{rows};
  const std::vector<Row> shipped = without_best_settings(rows);
  const auto standing = [&](const std::string& transport, const std::string& side) {
    return Standing{transport, side, scorer.score(side, transport, points, rows),
                    scorer.score(side, transport, points, shipped)};
  };
  std::vector<Standing> all;
  std::vector<std::string> transports;
  for (const Point& point : points)
    if (std::find(transports.begin(), transports.end(), point.transport) == transports.end())
      transports.push_back(point.transport);
  for (const std::string& transport : transports) {
    const std::size_t before = all.size();
    for (const std::string& side : scorer.libraries())
      if (Standing one = standing(transport, side); one.best.points > 0) all.push_back(std::move(one));
    if (all.size() > before + 1) all.push_back(standing(transport, std::string{best_of_all}));
  }
  return all;
}

std::string standings_text(std::span<const Standing> all, const Versions& versions) {
  if (all.empty()) return "";
  const std::string what = "time of each library / tutti's";
  std::size_t width = what.size();
  for (const Standing& one : all) width = std::max(width, label_of(one, versions).size());
  std::string text = fmt::format("#\n# {:<{}} {:^28}   {:>19}\n", what, width, "at its best", "as shipped");
  const std::string names = fmt::format("{:>6} {:>6} {:>6} {:>7}", "points", "mean", "worst", "below 1");
  text += fmt::format("# {:<{}} {}   {}   worst at its best\n", "", width, names, names);
  for (const Standing& one : all)
    text += fmt::format("# {:<{}} {}   {}   {}\n", label_of(one, versions), width, columns_of(one.best),
                        columns_of(one.shipped), describe(one.best.where));
  return text;
}

std::vector<std::string> standings_captions(std::span<const Standing> all, const Versions& versions) {
  std::vector<std::string> lines;
  for (const Standing& one : all) {
    std::string line = fmt::format("{}, {}: {:.2f} in the mean, worst {:.2f}, below 1 {} of {}", one.transport,
                                   one.side, one.best.mean, one.best.worst, one.best.below_1, one.best.points);
    if (one.shipped.points > 0) line += fmt::format("; as shipped {:.2f}", one.shipped.mean);
    lines.push_back(std::move(line));
  }
  for (const auto& [side, version] : versions) lines.push_back(fmt::format("{} is {}", side, version));
  if (!all.empty()) lines.insert(lines.begin(), "Time of each library over tutti's:");
  return lines;
}

}  // namespace tutti::cli::versus
