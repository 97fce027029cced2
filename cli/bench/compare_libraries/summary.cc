// The requirements on the grid.

#include "cli/bench/compare_libraries/summary.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

#include "cli/base/sizes.h"
#include "cli/bench/compare_libraries/report.h"

namespace tutti::cli::versus {
namespace {

constexpr std::size_t kibi = 1 << 10;
constexpr std::size_t mebi = 1 << 20;

/// What is held against a bar. A ratio is the time of the best library over tutti's.
enum class Kind : std::uint8_t {
  mean,                ///< the geometric mean of the ratios
  mean_in_torch,       ///< that of torch.distributed over Gloo to torch.distributed over tutti
  worst,               ///< the least ratio
  limit,               ///< the most of tutti's times over what the machine allows
  limit_of_allocated,  ///< that in memory that the library allocated
};

template <class T>
struct Span {
  T from = 0;
  T to = std::numeric_limits<T>::max();
  bool has(T value) const { return value >= from && value <= to; }
};

struct Bar {
  std::string_view transport;
  Kind kind;
  double value;
  std::optional<measure::MeasuredCall> call = {};  ///< empty: all
  Span<int> ranks = {};
  Span<std::size_t> sizes = {};
  bool has(const Point& point) const {
    return point.transport == transport && (!call || point.call == *call) && ranks.has(point.ranks) &&
           sizes.has(point.size);
  }
  bool is_limit() const { return kind == Kind::limit || kind == Kind::limit_of_allocated; }
};

constexpr Span<int> any_ranks;
constexpr Span<std::size_t> middle{16 * kibi, 256 * kibi};
constexpr Span<std::size_t> large{16 * mebi, 64 * mebi};
constexpr Span<std::size_t> from_64_kib{64 * kibi};

constexpr Bar bars[] = {
    {"shm", Kind::mean, 1.5, {}, {2, 2}},
    {"shm", Kind::mean, 1.7, {}, {4, 4}},
    {"shm", Kind::mean, 1.7, {}, {8, 8}},
    {"shm", Kind::worst, 0.95},
    {"shm", Kind::worst, 1.1, measure::send_recv, {2, 2}, middle},
    {"shm", Kind::worst, 1.1, Collective::all_gather, {2, 2}, middle},
    {"shm", Kind::worst, 1.1, Collective::all_to_all, {2, 2}, middle},
    {"shm", Kind::worst, 1.0, measure::send_recv, any_ranks, large},
    {"shm", Kind::worst, 1.0, Collective::gather, any_ranks, large},
    {"shm", Kind::worst, 1 / 1.2, {}, {8, 32}, {4, kibi}},
    {"shm", Kind::limit, 2.0, Collective::all_reduce, {2, 2}, from_64_kib},
    {"shm", Kind::limit_of_allocated, 2.0, Collective::all_reduce, {2, 2}, from_64_kib},
    {"shm", Kind::mean_in_torch, 5, {}, any_ranks, {0, mebi}},
    {"shm", Kind::mean_in_torch, 3, {}, any_ranks, {2 * mebi}},
    {"tcp", Kind::mean, 1.35, {}, {2, 2}},
    {"tcp", Kind::mean, 1.35, {}, {4, 4}},
    {"tcp", Kind::mean, 1.35, {}, {8, 8}},
    {"tcp", Kind::worst, 0.95},
};

/// Such as "4 to 8"; "from 64 KiB" and "to 1 MiB" if it is open at one end. Nothing if at both.
template <class T, class Text>
std::string text_of(const Span<T>& span, Text text) {
  if (span.from == span.to) return text(span.from);
  const bool is_open = span.to == std::numeric_limits<T>::max();
  if (is_open) return span.from == 0 ? "" : "from " + text(span.from);
  return (span.from == 0 ? "" : text(span.from) + " ") + "to " + text(span.to);
}

std::string_view name_of(Kind kind) {
  switch (kind) {
    case Kind::mean:
      return "geometric mean";
    case Kind::mean_in_torch:
      return "geometric mean in torch";
    case Kind::worst:
      return "worst point";
    case Kind::limit:
      return "most over the limit";
    case Kind::limit_of_allocated:
      return "most over the limit, allocated";
  }
  return "";
}

/// "shm, sendrecv, 2 ranks, 16 KiB to 256 KiB, worst point"
std::string label_of(const Bar& bar) {
  std::string text{bar.transport};
  if (bar.call) text += fmt::format(", {}", name_of(*bar.call));
  const std::string ranks = text_of(bar.ranks, [](int count) { return std::to_string(count); });
  if (!ranks.empty()) text += fmt::format(", {} ranks", ranks);
  const std::string sizes = text_of(bar.sizes, short_size);
  if (!sizes.empty()) text += ", " + sizes;
  return text + fmt::format(", {}", name_of(bar.kind));
}

struct Scored {
  Comparison comparison;
  double value;
};

std::optional<double> value_of(const Comparison& comparison, Kind kind) {
  switch (kind) {
    case Kind::mean:
    case Kind::worst:
      return comparison.ratio();
    case Kind::mean_in_torch:
      return comparison.own_beside("torch-gloo") == own_in_torch ? comparison.ratio_of("torch-gloo") : std::nullopt;
    case Kind::limit:
    case Kind::limit_of_allocated:
      return comparison.to_limit();
  }
  return std::nullopt;
}

/// At the points that `includes` takes.
template <class Includes>
std::vector<Scored> score(std::span<const Row> rows, Kind kind, Includes includes) {
  std::vector<Scored> scored;
  for (const Point& point : points_of(rows)) {
    if (!includes(point)) continue;
    for (const State state : {usual_state(rows), State::alone}) {
      const Comparison comparison = compare_in(state, rows, point, kind == Kind::limit_of_allocated);
      if (const auto value = value_of(comparison, kind)) {
        scored.push_back({comparison, *value});
        break;
      }
    }
  }
  return scored;
}

Requirement judge_bar(const Bar& bar, std::span<const Row> rows) {
  const std::vector<Scored> scored = score(rows, bar.kind, [&](const Point& point) { return bar.has(point); });
  Requirement requirement{
      .what = label_of(bar), .wanted = bar.value, .at_most = bar.is_limit(), .points = static_cast<int>(scored.size())};
  if (scored.empty()) return requirement;
  if (bar.kind == Kind::mean || bar.kind == Kind::mean_in_torch) {
    std::vector<double> ratios;
    for (const Scored& one : scored) ratios.push_back(one.value);
    requirement.reached = geometric_mean(ratios);
    return requirement;
  }
  const auto [least, most] = std::ranges::minmax_element(scored, {}, &Scored::value);
  const Scored& worst = bar.is_limit() ? *most : *least;
  requirement.reached = worst.value;
  requirement.where = describe(worst.comparison.point);
  return requirement;
}

}  // namespace

std::vector<Requirement> judge(std::span<const Row> rows) {
  std::vector<Requirement> requirements;
  for (const Bar& bar : bars) {
    const auto is_of_it = [&](const Row& row) { return row.point.transport == bar.transport; };
    if (std::ranges::any_of(rows, is_of_it)) requirements.push_back(judge_bar(bar, rows));
  }
  return requirements;
}

std::string summary_text(std::span<const Row> rows, int repetitions) {
  const std::string_view usual = name_of(usual_state(rows));
  std::string text = fmt::format("# ratio: best library's time / tutti's, medians of {} rows\n", usual);
  const std::vector<Requirement> requirements = judge(rows);
  if (!requirements.empty()) text += fmt::format("# {:<70} {:>8} {:>8} {:>7}\n", "what", "bar", "reached", "points");
  for (const Requirement& one : requirements) {
    const std::string bar = fmt::format("{} {:.2f}", one.at_most ? "<=" : ">=", one.wanted);
    if (one.points == 0) {
      text += fmt::format("# {:<70} {:>8} {:>8} {:>7}  not measured\n", one.what, bar, "-", 0);
    } else {
      text += fmt::format("# {:<70} {:>8} {:>8.2f} {:>7}  {}{}\n", one.what, bar, one.reached, one.points,
                          one.met() ? "met" : "MISSED",
                          one.where.empty() || one.points == 1 ? "" : fmt::format("; worst: {}", one.where));
    }
  }
  int thin = 0;
  const std::vector<Scored> all = score(rows, Kind::worst, [](const Point&) { return true; });
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
