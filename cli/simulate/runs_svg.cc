// The chart: logarithmic axes, and a curve per algorithm, distinguished by dashes and colour.

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "cli/simulate/runs.h"

namespace tutti::cli::simulate {
namespace {

constexpr double left = 70, top = 40, wide = 560, high = 340, below = 30;
constexpr double row = 16, sample = 30, letter = 7;  // of the legend; a letter of 12 px is not wider
constexpr double least = 1e-12;                      // seconds; an axis of powers has no 0
constexpr std::string_view colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000"};
// Only the first has no gaps, and is drawn first: where curves meet, it shows through those of the others.
constexpr std::string_view dashes[] = {"none", "9 5", "3 5", "14 6", "9 5 2 5", "6 8", "14 5 2 5 2 5", "2 9", "5 5"};

std::string_view dashes_of(std::size_t number) {
  return number == 0 ? dashes[0] : dashes[1 + (number - 1) % (std::size(dashes) - 1)];
}

struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;
};
using Curves = std::vector<Curve>;

Curve& named(Curves& curves, const std::string& name) {
  const auto found = std::find_if(curves.begin(), curves.end(), [&](const Curve& curve) { return curve.name == name; });
  if (found != curves.end()) return *found;
  return curves.emplace_back(Curve{name, {}});
}

struct Axes {
  double x_from = HUGE_VAL, x_to = 0, y_from = HUGE_VAL, y_to = 0;

  void include(double x, double y) {
    x_from = std::min(x_from, x), x_to = std::max(x_to, x);
    y_from = std::min(y_from, y), y_to = std::max(y_to, y);
  }
  /// Extends the y axis to whole powers of ten.
  void round() {
    y_from = std::pow(10, std::floor(std::log10(y_from)));
    y_to = std::max(y_from * 10, std::pow(10, std::ceil(std::log10(y_to))));
    if (x_to <= x_from) x_to = 2 * x_from;
  }
  double x(double value) const { return left + wide * std::log(value / x_from) / std::log(x_to / x_from); }
  double y(double value) const { return top + high - high * std::log(value / y_from) / std::log(y_to / y_from); }
};

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) safe += c == '&' ? "&amp;" : c == '<' ? "&lt;" : std::string(1, c);
  return safe;
}

std::string label(double x, double y, std::string_view anchor, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, escaped(text));
}

/// The label of a power of ten: "10 us".
std::string power_text(double seconds) {
  for (const auto& [unit, of_second] : {std::pair{"s", 1.0}, {"ms", 1e3}, {"us", 1e6}, {"ns", 1e9}})
    if (seconds * of_second > 0.9) return fmt::format("{:.4g} {}", seconds * of_second, unit);
  return fmt::format("{:.4g} ps", seconds * 1e12);
}

std::string grid(const Axes& axes, const Curves& curves, bool over_ranks) {
  std::string svg;
  for (double y = axes.y_from; y <= axes.y_to * 1.001; y *= 10) {
    svg += fmt::format("<path d=\"M{} {:.1f}h{}\" stroke=\"#ddd\"/>\n", left, axes.y(y), wide);
    svg += label(left - 6, axes.y(y) + 4, "end", power_text(y));
  }
  double last = HUGE_VAL;
  std::set<double, std::greater<>> values;  // from the right, so that the last one gets its label
  for (const Curve& curve : curves)
    for (const auto& point : curve.points) values.insert(point.first);
  for (const double value : values) {
    if (last - axes.x(value) < 44) continue;
    last = axes.x(value);
    const auto whole = static_cast<std::size_t>(value);
    svg += label(last, top + high + 16, "middle", over_ranks ? fmt::format("{}", whole) : size_text(whole));
  }
  return svg + label(left - 6, top - 10, "end", "time") +
         label(left + wide / 2, top + high + below + 6, "middle", over_ranks ? "ranks" : "bytes");
}

std::string draw(const Axes& axes, const Curve& curve, std::size_t number) {
  const std::string_view colour = colours[number % std::size(colours)];
  std::string path, marks;
  for (const auto& [x, y] : curve.points) {
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", axes.x(x), axes.y(y));
    marks += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n", axes.x(x), axes.y(y), colour);
  }
  const double at = top + 8 + row * static_cast<double>(number);
  const std::string stroke =
      fmt::format("fill=\"none\" stroke=\"{}\" stroke-width=\"2\" stroke-dasharray=\"{}\"", colour, dashes_of(number));
  return fmt::format("<path d=\"{}\" {}/>\n{}<path d=\"M{} {:.1f}h{}\" {}/>\n", path, stroke, marks, left + wide + 20,
                     at, sample, stroke) +
         label(left + wide + 26 + sample, at + 4, "start", curve.name);
}

/// At least what they take on a line.
double width_of(const std::string& words) { return letter * static_cast<double>(words.size()); }

std::string name_of(const SimulatedCall& simulated) {
  return simulated.asked.empty() ? to_string(simulated.choice) : simulated.asked;
}

}  // namespace

std::string to_svg(const std::vector<Timed>& all, const std::string& of) {
  const auto varies = [&](auto value) {
    return std::any_of(all.begin(), all.end(), [&](const Timed& one) { return value(one) != value(all.front()); });
  };
  const bool over_ranks = varies([](const Timed& one) { return one.simulated.ranks; });
  const bool many_sizes = varies([](const Timed& one) { return one.simulated.bytes; });
  std::string title = of;
  if (!over_ranks) title += fmt::format(", {} ranks", all.front().simulated.ranks);
  if (!many_sizes) title += fmt::format(", {} bytes", size_text(all.front().simulated.bytes));
  Curves curves;
  Axes axes;
  for (const Timed& one : all) {
    std::string name = name_of(one.simulated);
    if (over_ranks && many_sizes) name += fmt::format(", {} bytes", size_text(one.simulated.bytes));
    const double x = std::max(1.0, over_ranks ? one.simulated.ranks : static_cast<double>(one.simulated.bytes));
    const double y = std::max(least, one.result.seconds);
    named(curves, name).points.emplace_back(x, y);
    axes.include(x, y);
  }
  axes.round();
  for (Curve& curve : curves) std::sort(curve.points.begin(), curve.points.end());
  // The legend lists them from top to bottom, as they end on the right.
  std::stable_sort(curves.begin(), curves.end(),
                   [](const Curve& a, const Curve& b) { return a.points.back().second > b.points.back().second; });
  std::string body = grid(axes, curves, over_ranks);
  double names = 0;
  for (std::size_t number = 0; number < curves.size(); ++number) {
    body += draw(axes, curves[number], number);
    names = std::max(names, width_of(curves[number].name));
  }
  const double across = std::max(left + wide + 26 + sample + names, left + width_of(title)) + 14;
  const double down = std::max(top + high + below, top + row * static_cast<double>(curves.size())) + 20;
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n<title>{2}</title>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{3}{4}</svg>\n",
      across, down, escaped(title), label(left, 22, "start", title), body);
}

}  // namespace tutti::cli::simulate
