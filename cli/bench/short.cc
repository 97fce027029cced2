#include "cli/bench/short.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "cli/base/text.h"

namespace tutti::cli::bench {
namespace {

constexpr double longest_bar = 32;

std::string size_of(std::size_t bytes) { return size_text(static_cast<double>(bytes)); }

std::string time_of(double microseconds) { return time_text(static_cast<algorithms::Ticks>(microseconds * 1e6)); }

std::string errors(std::int64_t wrong) {
  return wrong > 0 ? fmt::format("  WRONG: {}", plural(static_cast<std::size_t>(wrong), "element")) : "";
}

/// A ratio whose interval contains 1 shows no difference.
std::string compared(const Comparison& comparison, std::size_t i) {
  const Ratio& ratio = comparison.contenders[i].ratio;
  if (i == comparison.best) return "best";
  return fmt::format("{:.2f} x{}", ratio.value, ratio.shows_difference() ? "" : ", may be chance");
}

}  // namespace

std::string short_heading(const Options& options, const Machine& machine) {
  std::string what = program_name(options.what);
  what.resize(what.rfind("_perf"));
  if (has_op(options.what)) what += fmt::format(" of {}, {}", options.type, options.op);
  if (!options.algorithm.empty()) what += ", by " + options.algorithm;
  return wrapped(fmt::format("{}: {} over {}; {} here\n", what, plural(machine.devices.size(), "rank"),
                             machine.transport, plural(static_cast<std::size_t>(machine.cores), "core")),
                 4);
}

std::string short_row(const RowResult& row) {
  const Timing& timing = row.out_of_place;
  return fmt::format("{:>10} {:>11}   bus bandwidth {:8.4f} GB/s{}\n", size_of(row.bytes), time_of(timing.microseconds),
                     timing.bandwidth.bus, errors(timing.wrong));
}

std::string short_comparison(const Comparison& comparison) {
  std::size_t name_width = 0;
  double longest = 0;
  for (const Contender& one : comparison.contenders) {
    name_width = std::max(name_width, one.algorithm.size());
    longest = std::max(longest, one.median);
  }
  std::string text = size_of(comparison.bytes) + "\n";
  for (std::size_t i = 0; i < comparison.contenders.size(); ++i) {
    const Contender& one = comparison.contenders[i];
    const double length = longest > 0 ? std::max(1.0, std::round(longest_bar * one.median / longest)) : 0;
    text += fmt::format("  {:{}} {:>9}  {:{}} {}{}\n", one.algorithm, name_width, time_of(one.median),
                        std::string(static_cast<std::size_t>(length), '#'), static_cast<int>(longest_bar),
                        compared(comparison, i), errors(one.wrong));
  }
  return text;
}

std::string short_sentence(std::string sentence) {
  if (!sentence.empty() && sentence[0] >= 'a' && sentence[0] <= 'z')
    sentence[0] = static_cast<char>(sentence[0] - 'a' + 'A');
  return wrapped(sentence + ".\n", 2);
}

std::string short_footer(const Outcome& outcome, const Options& options) {
  if (options.check == 0) return "Results were not checked (-c).\n";
  if (outcome.wrong_placements > 0) return fmt::format("WRONG results: {}\n", outcome.wrong_placements);
  return "All results were right.\n";
}

}  // namespace tutti::cli::bench
