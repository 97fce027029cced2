#include "cli/bench/compare_libraries/report.h"

#include <fmt/core.h>

#include <algorithm>

namespace tutti::cli::versus {
namespace {

/// Three significant digits in nine characters.
std::string microseconds(double value) {
  if (value < 10) return fmt::format("{:.2f}", value);
  if (value < 100) return fmt::format("{:.1f}", value);
  return fmt::format("{:.0f}", value);
}

/// A name longer than a column would put the columns behind it out of line.
std::size_t width_of(const std::string& side) { return std::max<std::size_t>(9, side.size()); }

std::string quotient(const std::optional<double>& value, int digits = 2) {
  return value ? fmt::format("{:.{}f}", *value, digits) : "-";
}

}  // namespace

std::string short_size(std::size_t bytes) {
  constexpr std::size_t kibi = 1 << 10;
  constexpr std::size_t mebi = 1 << 20;
  if (bytes >= mebi && bytes % mebi == 0) return fmt::format("{} MiB", bytes / mebi);
  if (bytes >= kibi && bytes % kibi == 0) return fmt::format("{} KiB", bytes / kibi);
  return fmt::format("{} B", bytes);
}

std::string describe(const Point& point) {
  return fmt::format("{}, {} ranks, {}, {}", measure::name_of(point.call), point.ranks, short_size(point.size),
                     point.transport);
}

std::string table_header(const std::vector<std::string>& sides) {
  std::string text = fmt::format("#{:<17} {:>5} {:>5} {:>8} {:>6}", "collective", "trans", "ranks", "size", "time");
  for (const std::string& side : sides) text += fmt::format(" {:>{}}", side, width_of(side));
  return text + fmt::format(" {:>7} {:>7} {:>5} {:>4}  settings\n", "ratio", "/limit", "state", "rows");
}

std::string table_row(const Comparison& comparison, const std::vector<std::string>& sides) {
  const Point& point = comparison.point;
  std::string text = fmt::format(" {:<17} {:>5} {:>5} {:>8} {:>6}", measure::name_of(point.call), point.transport,
                                 point.ranks, short_size(point.size), comparison.by_loop ? "loop" : "single");
  std::string settings;
  std::string troubles;
  int rows = 0;
  for (const std::string& side : sides) {
    const auto figure = comparison.of(side);
    const auto trouble = comparison.troubles.find(side);
    const std::string cell = figure ? microseconds(figure->median) : trouble == comparison.troubles.end() ? "-" : "x";
    text += fmt::format(" {:>{}}", cell, width_of(side));
    if (trouble != comparison.troubles.end()) troubles += fmt::format("; {}: {}", side, trouble->second);
    if (!figure || side == "limit") continue;
    settings += fmt::format("{}{}:{}", settings.empty() ? "" : " ", side, figure->setting);
    rows = rows == 0 ? figure->rows : std::min(rows, figure->rows);
  }
  return text + fmt::format(" {:>7} {:>7} {:>5} {:>4}  {}{}\n", quotient(comparison.ratio()),
                            quotient(comparison.to_limit()), name_of(comparison.state), rows, settings, troubles);
}

std::string table_footer() {
  return "# microseconds; ratio: best library's time / tutti's; /limit: tutti's time / what this machine allows.\n"
         "# time: single calls (max over ranks, median), or a loop back to back up to 1 KiB where ranks outnumber "
         "cores.\n"
         "# rows: repetitions in that state of the cores, the fewest of any side; x: see the end of the line.\n";
}

std::string comparison_csv_header() {
  return "collective,transport,ranks,size,state,time,side,setting,us,least_us,most_us,rows,ratio,to_limit,trouble\n";
}

std::string comparison_csv_rows(const Comparison& comparison, const std::vector<std::string>& sides) {
  std::string text;
  const Point& point = comparison.point;
  for (const std::string& side : sides) {
    const auto figure = comparison.of(side);
    const std::string cells = figure ? fmt::format("{},{:.4f},{:.4f},{:.4f},{}", figure->setting, figure->median,
                                                   figure->least, figure->most, figure->rows)
                                     : ",,,,";
    const auto trouble = comparison.troubles.find(side);
    std::string why = trouble == comparison.troubles.end() ? "" : trouble->second;
    std::replace(why.begin(), why.end(), ',', ';');
    text += fmt::format("{},{},{},{},{},{},{},{},{},{},{}\n", measure::name_of(point.call), point.transport,
                        point.ranks, point.size, name_of(comparison.state), comparison.by_loop ? "loop" : "single",
                        side, cells, quotient(comparison.ratio(), 6), quotient(comparison.to_limit(), 6), why);
  }
  return text;
}

}  // namespace tutti::cli::versus
