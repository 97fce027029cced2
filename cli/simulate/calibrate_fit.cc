// Turns measured times into a network: between two sizes, the line through both.

#include <fmt/core.h>

#include <algorithm>

#include "cli/simulate/calibrate.h"

namespace tutti::cli::simulate {
namespace {

struct Line {
  std::size_t from;
  double latency;   // microseconds
  double per_byte;  // microseconds
};

std::vector<Line> lines_through(const std::vector<Figures::Point>& points, double start) {
  std::vector<Line> lines;
  for (std::size_t i = 0; i + 1 < points.size(); ++i) {
    const double from = static_cast<double>(points[i].bytes), to = static_cast<double>(points[i + 1].bytes);
    const double before = std::max(0.0, points[i].time - start), after = std::max(0.0, points[i + 1].time - start);
    double per_byte = std::max(0.0, after - before) / (to - from);
    double latency = before - per_byte * from;
    if (latency < 0) latency = 0, per_byte = after / to;  // steeper than possible: exact at its end
    lines.push_back({i == 0 ? 0 : points[i].bytes, latency, per_byte});
  }
  return lines;
}

/// Picoseconds per byte, and bytes per second as the file has them.
std::string rate(double microseconds_per_byte) {
  return microseconds_per_byte > 1e-9 ? fmt::format("{:.4g}MB/s", 1 / microseconds_per_byte) : "unlimited";
}

}  // namespace

std::string network_text(const std::string& name, const Figures& figures) {
  const double first = figures.one_message.front().time;
  const double hop = std::clamp(figures.two_hops - first, 0.1 * first, first);
  const double start = first - hop;
  const double gap = std::clamp(figures.many, 0.0, hop);
  double moved = figures.one_message.back().time;
  for (std::size_t i = 0; i + 1 < figures.one_message.size(); ++i) {
    const auto& a = figures.one_message[i];
    const auto& b = figures.one_message[i + 1];
    if (a.bytes <= figures.summed_bytes && figures.summed_bytes <= b.bytes)
      moved = a.time + (b.time - a.time) * static_cast<double>(figures.summed_bytes - a.bytes) /
                           static_cast<double>(b.bytes - a.bytes);
  }
  const double adding =
      std::max(0.0, figures.sum - moved) / static_cast<double>(std::max<std::size_t>(1, figures.summed_bytes));
  std::string text = fmt::format("name   {}\nstart  {:.3f}us\nreduce {}\n", name, start, rate(adding));
  text += "#    distance        latency       gap     bandwidth; there is only this host, so all are alike\n";
  for (const char* distance : {"socket", "host", "leaf", "far"})
    for (const Line& line : lines_through(figures.one_message, start))
      text +=
          fmt::format("link {:<6} {:<10} {:>8.3f}us {:>8.3f}us  {}\n", distance,
                      line.from == 0 ? "" : fmt::format("from {}", line.from), line.latency, gap, rate(line.per_byte));
  return text;
}

}  // namespace tutti::cli::simulate
