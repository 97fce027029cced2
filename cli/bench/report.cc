// The table of nccl-tests, to the width of each column, since scripts read it. --format wide adds columns, csv is one
// line per placement.

#include "cli/bench/report.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <ctime>

namespace tutti::cli::bench {
namespace {

/// The columns before the placements, which are the same in all tables.
std::string leading_names(const char* size, const char* count, const char* type, const char* op, const char* root) {
  return fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}", size, count, type, op, root);
}

struct Column {
  const char* name;
  const char* unit;
  int width;
};

std::vector<Column> placement_columns(const Options& options) {
  std::vector<Column> columns{{options.cpu_time ? "cputime" : "time", "(us)", 7},
                              {"algbw", "(GB/s)", 6},
                              {"busbw", "(GB/s)", 6},
                              {"#wrong", "", 6}};
  if (options.format == Format::wide) {
    for (const char* name : {"min", "p50", "p95", "p99"}) columns.push_back({name, "(us)", 7});
  } else if (options.per_iteration) {
    for (const char* name : {"i_min", "i_max", "i_p99"}) columns.push_back({name, "(us)", 7});
    columns.push_back({"i_cv%", "(%)", 7});
  }
  return columns;
}

Statistics summary(const Series& series, const Options& options) { return statistics(counted(series, options)); }

std::string placement_cells(const Timing* timing, const Options& options) {
  std::string cells;
  const auto cell = [&](const std::string& text, int width) { cells += fmt::format("  {:>{}}", text, width); };
  if (timing == nullptr) {
    for (const Column& column : placement_columns(options)) cell("N/A", column.width);
    return cells;
  }
  cell(fitted(timing->microseconds, 7), 7);
  cell(fitted(timing->bandwidth.algorithm, 6), 6);
  cell(fitted(timing->bandwidth.bus, 6), 6);
  cell(timing->wrong < 0 ? "N/A" : fmt::format("{:g}", static_cast<double>(timing->wrong)), 6);
  const Statistics all = summary(timing->series, options);
  if (options.format == Format::wide) {
    for (const double time : {all.least, all.p50, all.p95, all.p99}) cell(fitted(time, 7), 7);
  } else if (options.per_iteration) {
    for (const double number : {all.least, all.most, all.p99, all.variation()}) cell(fitted(number, 7), 7);
  }
  return cells;
}

std::string centred(const std::string& text, std::size_t width) {
  const std::size_t before = text.size() < width ? (width - text.size()) / 2 : 0;
  return fmt::format("{:<{}}", std::string(before, ' ') + text, width);
}

}  // namespace

void Outcome::add(const RowResult& row) {
  const auto count = [this](const Timing& timing) {
    wrong_placements += timing.wrong > 0 ? 1 : 0;
    bus_bandwidth_sum += timing.bandwidth.bus;
    ++placements;
  };
  count(row.out_of_place);
  if (row.in_place) count(*row.in_place);
}

std::string fitted(double value, int width) {
  for (const int decimals : {2, 1, 0}) {
    std::string text = fmt::format("{:.{}f}", value, decimals);
    if (text.size() <= static_cast<std::size_t>(width)) return text;
  }
  return fmt::format("{:.{}e}", value, width >= 7 ? 1 : 0);
}

std::string local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::localtime_r(&now, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts)};
}

std::string preamble(const Options& options, const Machine& machine) {
  const bool factor = options.step_factor > 1;
  std::string text = fmt::format("# tutti bench version {}\n# Collective test starting: {}\n", machine.version,
                                 program_name(options.what));
  text += fmt::format(
      "# nThread {} nGpus {} minBytes {} maxBytes {} step: {}({}) warmup iters: {} iters: {} agg iters: {} "
      "validation: {} graph: 0 unalign: {}\n",
      options.threads, options.gpus, options.min_bytes, options.max_bytes,
      factor ? options.step_factor : options.step_bytes, factor ? "factor" : "bytes",
      options.warmup.value_or(usual_warmup), options.iterations.value_or(usual_iterations), options.aggregate,
      options.check, options.unalign);
  if (options.on_gpu) text += "# Buffers are in the memory of a GPU, and each call waits for its result there\n";
  if (options.blocking == 1) text += "# Blocking Enabled: barrier after each inner iteration (-m)\n";
  if (options.blocking == 3) text += "# Blocking Enabled: barrier after each outer iteration (-n), not in the time\n";
  text += "#\n# Using devices\n";
  for (const Device& device : machine.devices)
    text += fmt::format("#  Rank {:2} Group {:2} Pid {:6} on {:>10} device {:2} [cpu] {}\n", device.rank, device.group,
                        device.pid, device.host, device.device, device.processor);
  for (const std::string& line : describe(machine)) text += "# " + line + "\n";
  return text;
}

std::string table_header(const Options& options) {
  std::string names = leading_names("size", "count", "type", "redop", "root");
  std::string units = leading_names("(B)", "(elements)", "", "", "");
  std::size_t width = 0;
  const std::vector<Column> columns = placement_columns(options);
  for (const Column& column : columns) width += static_cast<std::size_t>(column.width) + 2;
  for (int placement = 0; placement < 2; ++placement) {
    for (const Column& column : columns) {
      names += fmt::format("  {:>{}}", column.name, column.width);
      units += fmt::format("  {:>{}}", column.unit, column.width);
    }
  }
  if (options.timestamps) names += fmt::format("  {:>19}", "timestamp");
  const std::string above = centred("out-of-place", width) + centred("in-place", width);
  return "#\n" + leading_names("", "", "", "", "") + above + "\n" + names + "\n" + units + "\n";
}

std::string table_row(const RowResult& row, const Options& options) {
  std::string text = fmt::format("{:12}  {:12}  {:>8}  {:>6}  {:>6}", row.bytes, row.count, row.type, row.op, row.root);
  text += placement_cells(&row.out_of_place, options);
  text += placement_cells(row.in_place ? &*row.in_place : nullptr, options);
  if (options.timestamps) text += fmt::format("  {:>19}", row.ready);
  return text + "\n";
}

std::string table_footer(const Outcome& outcome, const Options& options) {
  const char* verdict = !outcome.least_bandwidth ? "" : outcome.too_slow() ? "FAILED" : "OK";
  return fmt::format("# {:<20} : {} {}\n", "Out of bounds values", outcome.wrong_placements,
                     outcome.wrong_placements > 0 ? "FAILED" : "OK") +
         fmt::format("# {:<20} : {:g} {}\n", "Avg bus bandwidth", outcome.average(), verdict) +
         fmt::format("#\n# Collective test concluded: {}\n#\n", program_name(options.what));
}

std::string csv_header() {
  return "size,count,type,redop,root,placement,algorithm,iterations,time_us,algbw_GBps,busbw_GBps,wrong,min_us,p50_us,"
         "p95_us,p99_us\n";
}

std::string csv_rows(const RowResult& row, const Options& options) {
  const auto line = [&](const char* placement, const Timing& timing) {
    const Statistics all = summary(timing.series, options);
    return fmt::format("{},{},{},{},{},{},{},{},{:.3f},{:.4f},{:.4f},{},{:.3f},{:.3f},{:.3f},{:.3f}\n", row.bytes,
                       row.count, row.type, row.op, row.root, placement, row.algorithm, timing.iterations,
                       timing.microseconds, timing.bandwidth.algorithm, timing.bandwidth.bus,
                       timing.wrong < 0 ? "" : std::to_string(timing.wrong), all.least, all.p50, all.p95, all.p99);
  };
  std::string text = line("out_of_place", row.out_of_place);
  if (row.in_place) text += line("in_place", *row.in_place);
  return text;
}

}  // namespace tutti::cli::bench
