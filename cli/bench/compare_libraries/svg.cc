// Charts without a plotting library, since they need only lines and text.

#include "cli/base/svg.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <tuple>
#include <utility>

#include "cli/bench/compare_libraries/report.h"

namespace tutti::cli::versus {
namespace {

constexpr int width = 400;  // of one chart with its margins
constexpr int height = 290;
constexpr int left = 56;
constexpr int top = 30;
constexpr int plot_width = 314;
constexpr int plot_height = 214;
constexpr int columns = 2;

std::string_view colour_of(const std::string& side) {
  if (side == "tutti") return "#c1272d";
  if (side == "openmpi") return "#0071bc";
  if (side == "mpich") return "#2e8b57";
  if (side == "gloo") return "#8e44ad";
  if (side == "impi") return "#d98c00";
  if (side == "openmpi5") return "#00a0b0";
  if (side == "mpich5") return "#7a9a01";
  if (side == "torch-gloo") return "#c060c0";
  if (side == "torch-tutti") return "#e07070";
  if (side == "nccl") return "#5b8c00";
  if (side == "torch-symm") return "#8a5a2b";
  return "#888888";
}

using Chart = std::vector<const Comparison*>;  // in the order of their sizes

struct Axes {
  double least_size = 0, most_size = 0;  ///< logarithms to base 2
  double least_time = 0, most_time = 0;  ///< to base 10, whole

  double x(std::size_t size) const {
    const double span = std::max(1.0, most_size - least_size);
    return left + (std::log2(static_cast<double>(size)) - least_size) / span * plot_width;
  }
  double y(double time) const {
    return top + plot_height - (std::log10(time) - least_time) / (most_time - least_time) * plot_height;
  }
};

/// Charts beside each other share one scale of times.
Axes axes_of(std::span<const Chart> row) {
  Axes axes;
  double least = 1e30;
  double most = 0;
  for (const Chart& chart : row)
    for (const Comparison* one : chart)
      for (const auto& [side, figure] : one->sides)
        if (figure.median > 0) least = std::min(least, figure.median), most = std::max(most, figure.median);
  axes.least_time = std::floor(std::log10(least));
  axes.most_time = std::max(axes.least_time + 1, std::ceil(std::log10(most)));
  return axes;
}

std::string text_at(double x, double y, std::string_view anchor, std::string_view text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, escaped(text));
}

std::string grid(const Chart& chart, const Axes& axes) {
  std::string svg;
  for (double power = axes.least_time; power <= axes.most_time; ++power) {
    const double y = axes.y(std::pow(10, power));
    svg += fmt::format("<path d=\"M{} {:.1f}h{}\" stroke=\"#ddd\"/>\n", left, y, plot_width);
    svg += text_at(left - 4, y + 4, "end",
                   power < 0 ? fmt::format("{:g}", std::pow(10, power)) : fmt::format("{:.0f}", std::pow(10, power)));
  }
  constexpr double room = 42;  // height of a label; one that would overlap another moves a row down
  constexpr int rows = 3;
  double next[rows] = {2 * width, 2 * width, 2 * width};
  for (auto one = chart.rbegin(); one != chart.rend(); ++one) {
    const double x = axes.x((*one)->point.size);
    int row = 0;
    while (row < rows && next[row] - x < room) ++row;
    svg += fmt::format("<path d=\"M{:.1f} {}v{}\" stroke=\"#888\"/>\n", x, top + plot_height,
                       row < rows ? 4 + 12 * row : 4);
    if (row == rows) continue;
    svg += text_at(x, top + plot_height + 15 + 12 * row, "middle", short_size((*one)->point.size));
    next[row] = x;
  }
  return svg;
}

std::string curve(const Chart& chart, const Axes& axes, const std::string& side) {
  std::string path;
  std::string dots;
  for (const Comparison* one : chart) {
    const auto figure = one->of(side);
    if (!figure || figure->median <= 0) continue;
    const double x = axes.x(one->point.size);
    const double y = axes.y(figure->median);
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x, y);
    dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\" fill=\"{}\"/>\n", x, y, colour_of(side));
  }
  if (path.empty()) return "";
  return fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\"{}/>\n{}", path, colour_of(side),
                     side == "limit" ? " stroke-dasharray=\"4 3\"" : "", dots);
}

std::string draw(const Chart& chart, Axes axes, const std::vector<std::string>& sides) {
  const Point& point = chart.front()->point;
  axes.least_size = std::log2(static_cast<double>(point.size));
  axes.most_size = std::log2(static_cast<double>(chart.back()->point.size));
  std::string svg = text_at(
      left, 18, "start",
      fmt::format("{}, {} ranks, {} (microseconds)", measure::name_of(point.call), point.ranks, point.transport));
  svg += grid(chart, axes);
  double x = left + 6;
  for (const std::string& side : sides) {
    const std::string line = curve(chart, axes, side);
    if (line.empty()) continue;
    svg += line;
    svg += fmt::format("<g fill=\"{}\">{}</g>", colour_of(side), text_at(x, top + 12, "start", side));
    x += 14.0 + 6.5 * static_cast<double>(side.size());
  }
  return svg;
}

}  // namespace

std::string svg_document(const Report& report) {
  std::map<std::tuple<std::string, measure::MeasuredCall, int>, Chart> found;
  for (const Comparison& one : report.comparisons)
    if (one.point.size > 0 && !one.sides.empty())
      found[{one.point.transport, one.point.call, one.point.ranks}].push_back(&one);
  std::vector<Chart> charts;
  for (auto& [key, chart] : found) {
    std::sort(chart.begin(), chart.end(),
              [](const Comparison* a, const Comparison* b) { return a->point.size < b->point.size; });
    charts.push_back(std::move(chart));
  }
  std::string body;
  const int number = static_cast<int>(charts.size());
  for (int i = 0; i < number; ++i) {
    const auto first = static_cast<std::size_t>(i - i % columns);
    const std::span row = std::span{charts}.subspan(first, std::min<std::size_t>(columns, charts.size() - first));
    body += fmt::format("<g transform=\"translate({} {})\">\n{}</g>\n", i % columns * width, i / columns * height,
                        draw(charts[static_cast<std::size_t>(i)], axes_of(row), report.sides));
  }
  int high = (number + columns - 1) / columns * height;
  constexpr int line_height = 15;
  const std::vector<std::string> captions = standings_captions(report.standings, report.versions);
  Svg text;  // which takes any characters that a version may have
  for (const std::string& line : captions)
    text.text({left, static_cast<double>(high += line_height)}, Anchor::start, line);
  body += text.body();
  if (!captions.empty()) high += line_height;
  const int wide = std::max(1, std::min(number, columns)) * width;
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "font-family=\"sans-serif\" font-size=\"11\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{2}</svg>\n",
      wide, std::max(high, 1), body);
}

}  // namespace tutti::cli::versus
