// The requirements on the grid: a ratio is the best rival's time over tutti's, and a bar is its least allowed value.

#include "cli/bench/compare_libraries/summary.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>

#include "cli/base/sizes.h"
#include "cli/bench/compare_libraries/report.h"

namespace tutti::cli::versus {
namespace {

constexpr std::size_t kibi = 1 << 10;
constexpr std::size_t mebi = 1 << 20;

enum class Kind : std::uint8_t {
  mean,       ///< the geometric mean of the ratios
  gloo_mean,  ///< that of the ratios to Gloo
  worst,      ///< the least ratio
  allocated,  ///< the least with tutti in memory that the library allocated
};

template <class T>
struct Span {
  T from = 0;
  T to = std::numeric_limits<T>::max();
  bool has(T value) const { return value >= from && value <= to; }
  bool is_all() const { return from == 0; }
};

/// The points of this transport, call, ranks and sizes must reach `least`.
struct Bar {
  std::string_view transport;
  Kind kind;
  double least;
  std::optional<measure::MeasuredCall> call = {};  ///< empty: all
  Span<int> ranks = {};
  Span<std::size_t> sizes = {};
  bool has(const Point& point) const {
    return point.transport == transport && (!call || point.call == *call) && ranks.has(point.ranks) &&
           sizes.has(point.size);
  }
};

constexpr measure::MeasuredCall all_reduce = Collective::all_reduce;

/// Were set for these libraries, which Debian 12 has.
constexpr std::string_view debians[] = {"openmpi", "mpich", "gloo"};
constexpr Bar bars_beside_debians[] = {
    {"shm", Kind::mean, 1.7},
    {"shm", Kind::worst, 0.9},
    {"shm", Kind::worst, 1.5, all_reduce, {2, 2}, {4, 4}},
    {"shm", Kind::worst, 1.8, all_reduce, {2, 2}, {kibi, kibi}},
    {"shm", Kind::worst, 1.6, all_reduce, {2, 2}, {64 * kibi, 64 * kibi}},
    {"shm", Kind::worst, 1.5, all_reduce, {2, 2}, {mebi, mebi}},
    {"shm", Kind::worst, 1.2, all_reduce, {2, 2}, {16 * mebi, 16 * mebi}},
    {"shm", Kind::worst, 1.45, all_reduce, {2, 2}, {64 * mebi, 64 * mebi}},
    {"shm", Kind::allocated, 3, all_reduce, {2, 2}, {64 * kibi, mebi}},
    {"shm", Kind::allocated, 1.6, all_reduce, {2, 2}, {16 * mebi, 16 * mebi}},
    {"shm", Kind::allocated, 1.9, all_reduce, {2, 2}, {64 * mebi, 64 * mebi}},
    {"shm", Kind::worst, 1.2, all_reduce, {4, 8}, {4, kibi}},
    {"shm", Kind::worst, 1.6, all_reduce, {4, 8}, {64 * kibi, 64 * kibi}},
    {"shm", Kind::worst, 2.0, all_reduce, {4, 8}, {mebi, mebi}},
    {"shm", Kind::worst, 1.5, all_reduce, {4, 8}, {16 * mebi, 64 * mebi}},
    {"tcp", Kind::mean, 1.35},
    {"tcp", Kind::worst, 0.9},
    {"tcp", Kind::worst, 1.0, all_reduce, {2, 2}, {4, kibi}},
    {"tcp", Kind::worst, 1.2, all_reduce, {2, 2}, {64 * kibi, 64 * kibi}},
    {"tcp", Kind::worst, 1.0, all_reduce, {2, 2}, {mebi, mebi}},
    {"tcp", Kind::worst, 1.2, all_reduce, {2, 2}, {16 * mebi, 16 * mebi}},
    {"tcp", Kind::worst, 1.3, all_reduce, {2, 2}, {64 * mebi, 64 * mebi}},
    {"tcp", Kind::worst, 1.5, all_reduce, {4, 8}, {4, kibi}},
    {"tcp", Kind::worst, 1.3, all_reduce, {4, 8}, {64 * kibi, 64 * kibi}},
    {"tcp", Kind::worst, 1.1, all_reduce, {4, 8}, {mebi, 64 * mebi}},
    {"tcp", Kind::gloo_mean, 4},
};

/// Were set for the libraries that tools/peers/install installs.
constexpr Bar bars_beside_todays[] = {
    {"shm", Kind::mean, 1.5, {}, {2, 2}},
    {"shm", Kind::mean, 1.7, {}, {4, 4}},
    {"shm", Kind::mean, 1.7, {}, {8, 8}},
    {"shm", Kind::worst, 0.95},
    {"shm", Kind::worst, 1.1, measure::send_recv, {2, 2}, {16 * kibi, 256 * kibi}},
    {"shm", Kind::worst, 1.1, Collective::all_gather, {2, 2}, {16 * kibi, 256 * kibi}},
    {"shm", Kind::worst, 1.1, Collective::all_to_all, {2, 2}, {16 * kibi, 256 * kibi}},
    {"tcp", Kind::mean, 1.35},
};

std::span<const Bar> bars_for(std::span<const Row> rows) {
  const auto is_todays = [](const Row& row) {
    return is_peer(row.side) && std::find(std::begin(debians), std::end(debians), row.side) == std::end(debians);
  };
  if (std::any_of(rows.begin(), rows.end(), is_todays)) return bars_beside_todays;
  return bars_beside_debians;
}

/// "shm, all_reduce, 4 to 8 ranks, 4 B to 1 KiB", "shm, whole grid, geometric mean"
std::string label_of(const Bar& bar) {
  const auto range = [](auto from, auto to) { return from == to ? from : fmt::format("{} to {}", from, to); };
  std::string text{bar.transport};
  if (bar.call) text += fmt::format(", {}", name_of(*bar.call));
  if (!bar.ranks.is_all())
    text += fmt::format(", {} ranks", range(std::to_string(bar.ranks.from), std::to_string(bar.ranks.to)));
  if (!bar.sizes.is_all()) text += ", " + range(short_size(bar.sizes.from), short_size(bar.sizes.to));
  const bool whole = !bar.call && bar.ranks.is_all();
  if (whole) text += bar.kind == Kind::gloo_mean ? ", whole grid against gloo" : ", whole grid";
  if (bar.kind == Kind::mean || bar.kind == Kind::gloo_mean) text += ", geometric mean";
  if (bar.kind == Kind::allocated) text += ", allocated memory";
  if (bar.kind == Kind::worst && whole) text += ", worst point";
  return text;
}

struct Scored {
  Comparison comparison;
  double ratio;
};
using Ratio = std::optional<double> (*)(const Comparison&);

std::optional<double> best_ratio(const Comparison& comparison) { return comparison.ratio(); }
std::optional<double> gloo_ratio(const Comparison& comparison) { return comparison.ratio_of("gloo"); }

/// At the points of the bar; without one, at all.
std::vector<Scored> score(std::span<const Row> rows, const Bar* bar) {
  const Ratio ratio = bar != nullptr && bar->kind == Kind::gloo_mean ? gloo_ratio : best_ratio;
  std::vector<Scored> scored;
  for (const Point& point : points_of(rows)) {
    if (bar != nullptr && !bar->has(point)) continue;
    for (const State state : {usual_state(rows), State::alone}) {
      const Comparison comparison = compare_in(state, rows, point, bar != nullptr && bar->kind == Kind::allocated);
      if (const auto value = ratio(comparison)) scored.push_back({comparison, *value});
    }
  }
  return scored;
}

Requirement judge_bar(const Bar& bar, std::span<const Row> rows) {
  const std::vector<Scored> scored = score(rows, &bar);
  Requirement requirement{label_of(bar), bar.least, 0, static_cast<int>(scored.size()), ""};
  if (scored.empty()) return requirement;
  if (bar.kind == Kind::mean || bar.kind == Kind::gloo_mean) {
    std::vector<double> ratios;
    for (const Scored& one : scored) ratios.push_back(one.ratio);
    requirement.reached = geometric_mean(ratios);
    return requirement;
  }
  const auto least = std::min_element(scored.begin(), scored.end(),
                                      [](const Scored& a, const Scored& b) { return a.ratio < b.ratio; });
  requirement.reached = least->ratio;
  requirement.where = describe(least->comparison.point);
  return requirement;
}

}  // namespace

std::vector<Requirement> judge(std::span<const Row> rows) {
  std::vector<Requirement> requirements;
  for (const Bar& bar : bars_for(rows)) requirements.push_back(judge_bar(bar, rows));
  return requirements;
}

std::string summary_text(std::span<const Row> rows, int repetitions) {
  const std::string_view usual = name_of(usual_state(rows));
  std::string text = fmt::format("# ratio: best library's time / tutti's, medians of {} rows\n", usual);
  const auto has_bars = [&](const Row& row) {
    return std::ranges::any_of(bars_for(rows), [&](const Bar& bar) { return bar.transport == row.point.transport; });
  };
  std::vector<Requirement> requirements;
  if (std::ranges::any_of(rows, has_bars)) requirements = judge(rows);
  if (!requirements.empty()) text += fmt::format("# {:<60} {:>8} {:>8} {:>7}\n", "what", "bar", "reached", "points");
  for (const Requirement& one : requirements) {
    if (one.points == 0) {
      text += fmt::format("# {:<60} {:>8.2f} {:>8} {:>7}  not measured\n", one.what, one.wanted, "-", 0);
    } else {
      text += fmt::format("# {:<60} {:>8.2f} {:>8.2f} {:>7}  {}{}\n", one.what, one.wanted, one.reached, one.points,
                          one.met() ? "met" : "MISSED",
                          one.where.empty() || one.points == 1 ? "" : fmt::format("; worst: {}", one.where));
    }
  }
  int thin = 0;
  const std::vector<Scored> all = score(rows, nullptr);
  for (const Scored& one : all) {
    const Comparison& comparison = one.comparison;
    const std::string best = comparison.best_peer();
    const int least = std::min(comparison.sides.at(comparison.own_beside(best)).rows, comparison.sides.at(best).rows);
    if (least < repetitions) ++thin;
  }
  text += fmt::format("# {} points compared, {} of them with fewer than {} {} rows of tutti or of the best library\n",
                      all.size(), thin, repetitions, usual);
  return text;
}

}  // namespace tutti::cli::versus
