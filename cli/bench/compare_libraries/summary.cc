// The requirements on the grid: a ratio is the best rival's time over tutti's, and a bar is its least allowed value.

#include "cli/bench/compare_libraries/summary.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "cli/base/sizes.h"
#include "cli/bench/compare_libraries/report.h"

namespace tutti::cli::versus {
namespace {

constexpr std::size_t kibi = 1 << 10;
constexpr std::size_t mebi = 1 << 20;

/// The worst all_reduce point within these sizes and ranks must reach `least`.
struct Bar {
  std::string_view transport;
  int least_ranks;
  int most_ranks;
  std::size_t from;
  std::size_t to;
  double least;
  bool in_allocated;
};
constexpr Bar bars[] = {
    {"shm", 2, 2, 4, 4, 1.5, false},
    {"shm", 2, 2, kibi, kibi, 1.8, false},
    {"shm", 2, 2, 64 * kibi, 64 * kibi, 1.6, false},
    {"shm", 2, 2, mebi, mebi, 1.5, false},
    {"shm", 2, 2, 16 * mebi, 16 * mebi, 1.2, false},
    {"shm", 2, 2, 64 * mebi, 64 * mebi, 1.45, false},
    {"shm", 2, 2, 64 * kibi, mebi, 3, true},
    {"shm", 2, 2, 16 * mebi, 16 * mebi, 1.6, true},
    {"shm", 2, 2, 64 * mebi, 64 * mebi, 1.9, true},
    {"shm", 4, 8, 4, kibi, 1.2, false},
    {"shm", 4, 8, 64 * kibi, 64 * kibi, 1.6, false},
    {"shm", 4, 8, mebi, mebi, 2.0, false},
    {"shm", 4, 8, 16 * mebi, 64 * mebi, 1.5, false},
    {"tcp", 2, 2, 4, kibi, 1.0, false},
    {"tcp", 2, 2, 64 * kibi, 64 * kibi, 1.2, false},
    {"tcp", 2, 2, mebi, mebi, 1.0, false},
    {"tcp", 2, 2, 16 * mebi, 16 * mebi, 1.2, false},
    {"tcp", 2, 2, 64 * mebi, 64 * mebi, 1.3, false},
    {"tcp", 4, 8, 4, kibi, 1.5, false},
    {"tcp", 4, 8, 64 * kibi, 64 * kibi, 1.3, false},
    {"tcp", 4, 8, mebi, 64 * mebi, 1.1, false},
};

struct Scored {
  Comparison comparison;
  double ratio;
};
using Ratio = std::function<std::optional<double>(const Comparison&)>;

std::vector<Scored> score(std::span<const Row> rows, bool in_allocated, const Ratio& ratio,
                          const std::function<bool(const Point&)>& wanted) {
  std::vector<Scored> scored;
  for (const Point& point : points_of(rows)) {
    if (!wanted(point)) continue;
    for (const State state : {usual_state(rows), State::alone}) {
      const Comparison comparison = compare_in(state, rows, point, in_allocated);
      if (const auto value = ratio(comparison)) scored.push_back({comparison, *value});
    }
  }
  return scored;
}

Requirement worst(std::string what, double wanted, const std::vector<Scored>& scored) {
  Requirement requirement{std::move(what), wanted, 0, static_cast<int>(scored.size()), ""};
  if (scored.empty()) return requirement;
  const auto least = std::min_element(scored.begin(), scored.end(),
                                      [](const Scored& a, const Scored& b) { return a.ratio < b.ratio; });
  requirement.reached = least->ratio;
  requirement.where = describe(least->comparison.point);
  return requirement;
}

Requirement mean(std::string what, double wanted, const std::vector<Scored>& scored) {
  std::vector<double> ratios;
  for (const Scored& one : scored) ratios.push_back(one.ratio);
  return {std::move(what), wanted, geometric_mean(ratios), static_cast<int>(scored.size()), ""};
}

std::optional<double> best_ratio(const Comparison& comparison) { return comparison.ratio(); }

std::optional<double> gloo_ratio(const Comparison& comparison) {
  const auto gloo = comparison.of("gloo");
  const auto mine = comparison.of("tutti");
  if (!gloo || !mine) return {};
  return gloo->median / mine->median;
}

void judge_transport(std::vector<Requirement>& requirements, std::span<const Row> rows, const std::string& transport,
                     double wanted_mean) {
  constexpr double wanted_worst = 0.9;
  const auto is_over = [&](const Point& point) { return point.transport == transport; };
  const std::vector<Scored> whole = score(rows, false, best_ratio, is_over);
  requirements.push_back(mean(transport + ", whole grid, geometric mean", wanted_mean, whole));
  requirements.push_back(worst(transport + ", whole grid, worst point", wanted_worst, whole));
  for (const Bar& bar : bars) {
    if (bar.transport != transport) continue;
    const auto fits = [&](const Point& point) {
      return point.transport == transport && point.call == Collective::all_reduce && point.ranks >= bar.least_ranks &&
             point.ranks <= bar.most_ranks && point.size >= bar.from && point.size <= bar.to;
    };
    const std::string sizes =
        bar.from == bar.to ? short_size(bar.from) : fmt::format("{} to {}", short_size(bar.from), short_size(bar.to));
    const std::string ranks = bar.least_ranks == bar.most_ranks
                                  ? std::to_string(bar.least_ranks)
                                  : fmt::format("{} to {}", bar.least_ranks, bar.most_ranks);
    requirements.push_back(worst(fmt::format("{}, all_reduce, {} ranks, {}{}", transport, ranks, sizes,
                                             bar.in_allocated ? ", allocated memory" : ""),
                                 bar.least, score(rows, bar.in_allocated, best_ratio, fits)));
  }
}

}  // namespace

std::vector<Requirement> judge(std::span<const Row> rows) {
  constexpr double wanted_shm = 1.7;
  constexpr double wanted_tcp = 1.35;
  constexpr double wanted_gloo = 4;
  std::vector<Requirement> requirements;
  judge_transport(requirements, rows, "shm", wanted_shm);
  judge_transport(requirements, rows, "tcp", wanted_tcp);
  const auto over_tcp = [](const Point& point) { return point.transport == "tcp"; };
  requirements.push_back(
      mean("tcp, whole grid against gloo, geometric mean", wanted_gloo, score(rows, false, gloo_ratio, over_tcp)));
  return requirements;
}

std::string summary_text(std::span<const Row> rows, int repetitions) {
  const std::string_view usual = name_of(usual_state(rows));
  std::string text = fmt::format("# ratio: best library's time / tutti's, medians of {} rows\n", usual);
  text += fmt::format("# {:<60} {:>8} {:>8} {:>7}\n", "what", "bar", "reached", "points");
  for (const Requirement& one : judge(rows)) {
    if (one.points == 0) {
      text += fmt::format("# {:<60} {:>8.2f} {:>8} {:>7}  not measured\n", one.what, one.wanted, "-", 0);
    } else {
      text += fmt::format("# {:<60} {:>8.2f} {:>8.2f} {:>7}  {}{}\n", one.what, one.wanted, one.reached, one.points,
                          one.met() ? "met" : "MISSED",
                          one.where.empty() || one.points == 1 ? "" : fmt::format("; worst: {}", one.where));
    }
  }
  int thin = 0;
  const std::vector<Scored> all = score(rows, false, best_ratio, [](const Point&) { return true; });
  for (const Scored& one : all) {
    const Comparison& comparison = one.comparison;
    const int least = std::min(comparison.sides.at("tutti").rows, comparison.sides.at(comparison.best_peer()).rows);
    if (least < repetitions) ++thin;
  }
  text += fmt::format("# {} points compared, {} of them with fewer than {} {} rows of tutti or of the best library\n",
                      all.size(), thin, repetitions, usual);
  return text;
}

}  // namespace tutti::cli::versus
