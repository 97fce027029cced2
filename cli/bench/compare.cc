#include "cli/bench/compare.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "cli/measure/median.h"

namespace tutti::cli::bench {
namespace {

constexpr int resamples = 400;

using measure::median;

double resampled_median(const std::vector<double>& values, std::mt19937& random) {
  std::uniform_int_distribution<std::size_t> pick{0, values.size() - 1};
  std::vector<double> drawn(values.size());
  for (double& value : drawn) value = values[pick(random)];
  return median(std::move(drawn));
}

std::string readable(std::size_t bytes) {
  for (const auto& [unit, shift] : {std::pair{"GiB", 30}, {"MiB", 20}, {"KiB", 10}})
    if (bytes >> shift > 0)
      return fmt::format("{:.4g} {}", static_cast<double>(bytes) / static_cast<double>(std::size_t{1} << shift), unit);
  return fmt::format("{} bytes", bytes);
}

/// "ring", "ring and tree", "ring, tree and chain".
std::string listed(const std::vector<std::string>& names) {
  std::string text = names.front();
  for (std::size_t i = 1; i < names.size(); ++i) text += (i + 1 == names.size() ? " and " : ", ") + names[i];
  return text;
}

/// Consecutive sizes with a common winner.
struct Stretch {
  std::size_t last_bytes = 0;
  std::vector<std::string> winners;  ///< at every one of these sizes
  int sizes = 0;
  int decided = 0;  ///< sizes at which a difference shows
};

std::vector<std::string> winner_names(const Comparison& comparison) {
  std::vector<std::string> names;
  for (const std::size_t i : comparison.winners()) names.push_back(comparison.contenders[i].algorithm);
  return names;
}

std::vector<Stretch> stretches(std::span<const Comparison> comparisons) {
  std::vector<Stretch> result;
  for (const Comparison& comparison : comparisons) {
    const std::vector<std::string> names = winner_names(comparison);
    std::vector<std::string> common;
    if (!result.empty())
      for (const std::string& name : result.back().winners)
        if (std::find(names.begin(), names.end(), name) != names.end()) common.push_back(name);
    if (common.empty()) {
      result.emplace_back();
      common = names;
    }
    Stretch& stretch = result.back();
    stretch.last_bytes = comparison.bytes;
    stretch.winners = common;
    stretch.sizes += 1;
    stretch.decided += names.size() == 1 ? 1 : 0;
  }
  return result;
}

/// A sentence about a stretch: it reports a difference only if the interval shows one.
std::string verdict(const Stretch& stretch) {
  const std::string& name = stretch.winners.front();
  if (stretch.winners.size() > 1) return "no difference shown between " + listed(stretch.winners);
  if (stretch.decided == stretch.sizes) return name + " is fastest";
  if (stretch.decided > 0) return name + " is fastest, or level with the fastest,";
  return "nothing is shown to be faster than " + name;
}

}  // namespace

Ratio ratio_of_medians(const std::vector<double>& times, const std::vector<double>& base) {
  if (times.empty() || base.empty()) return {};
  std::mt19937 random{1};
  std::vector<double> ratios;
  for (int i = 0; i < resamples; ++i)
    ratios.push_back(resampled_median(times, random) / resampled_median(base, random));
  std::sort(ratios.begin(), ratios.end());
  return {median(times) / median(base), ratios[resamples / 40], ratios[resamples - 1 - resamples / 40]};
}

void Comparison::settle(MeasuredCall what, int ranks) {
  for (Contender& one : contenders) {
    one.median = median(one.times);
    one.bandwidth = bandwidth(what, bytes, one.median, ranks);
  }
  const auto faster = [](const Contender& a, const Contender& b) { return a.median < b.median; };
  best = static_cast<std::size_t>(std::min_element(contenders.begin(), contenders.end(), faster) - contenders.begin());
  for (std::size_t i = 0; i < contenders.size(); ++i)
    contenders[i].ratio = i == best ? Ratio{} : ratio_of_medians(contenders[i].times, contenders[best].times);
}

std::vector<std::size_t> Comparison::winners() const {
  std::vector<std::size_t> result;
  for (std::size_t i = 0; i < contenders.size(); ++i)
    if (i == best || !contenders[i].ratio.shows_difference()) result.push_back(i);
  return result;
}

namespace {

constexpr int group_width = 2 + 8 + 2 + 6 + 2 + 6;

int width_of(const std::string& algorithm) { return std::max(group_width, static_cast<int>(algorithm.size()) + 2); }

}  // namespace

std::string compare_header(const std::vector<std::string>& algorithms) {
  const auto leading = [](const char* size, const char* count, const char* type, const char* op, const char* root) {
    return fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}", size, count, type, op, root);
  };
  std::string above = leading("", "", "", "", "");
  std::string names = leading("size", "count", "type", "redop", "root");
  std::string units = leading("(B)", "(elements)", "", "", "");
  for (const std::string& algorithm : algorithms) {
    const int width = width_of(algorithm);
    above += fmt::format("{:>{}}", algorithm, width);
    names += fmt::format("{:>{}}", fmt::format("{:>8}  {:>6}  {:>6}", "p50", "busbw", "ratio"), width);
    units += fmt::format("{:>{}}", fmt::format("{:>8}  {:>6}  {:>6}", "(us)", "(GB/s)", ""), width);
  }
  return "#\n" + above + "\n" + names + "  #wrong\n" + units + "\n";
}

std::string compare_row(const Comparison& comparison) {
  std::string text = fmt::format("{:12}  {:12}  {:>8}  {:>6}  {:>6}", comparison.bytes, comparison.count,
                                 comparison.type, comparison.op, comparison.root);
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < comparison.contenders.size(); ++i) {
    const Contender& one = comparison.contenders[i];
    // A ratio whose interval contains 1 is marked: the difference may be chance.
    const std::string ratio = i == comparison.best
                                  ? "best"
                                  : fmt::format("{:.2f}{}", one.ratio.value, one.ratio.shows_difference() ? "" : "?");
    text += fmt::format("{:>{}}",
                        fmt::format("{:>8}  {:>6}  {:>6}", fitted(one.median, 8), fitted(one.bandwidth.bus, 6), ratio),
                        width_of(one.algorithm));
    wrong = one.wrong < 0 ? -1 : wrong + one.wrong;
  }
  return text + (wrong < 0 ? fmt::format("  {:>6}\n", "N/A") : fmt::format("  {:>6}\n", wrong));
}

std::string closing_sentence(std::span<const Comparison> comparisons) {
  const std::vector<Stretch> all = stretches(comparisons);
  if (all.empty()) return "";
  if (all.size() == 1) {
    const std::string where = all[0].sizes == 1 ? "at " + readable(all[0].last_bytes) : "at all these sizes";
    return fmt::format("{} {} on this machine", where, verdict(all[0]));
  }
  std::string text = fmt::format("up to {} {} on this machine", readable(all[0].last_bytes), verdict(all[0]));
  for (std::size_t i = 1; i < all.size(); ++i) {
    const std::string where = i + 1 == all.size() ? "above it" : "up to " + readable(all[i].last_bytes);
    const bool clear = all[i].winners.size() == 1 && all[i].decided == all[i].sizes;
    text += fmt::format(", {} {}", where, clear ? all[i].winners.front() : verdict(all[i]));
  }
  if (text.ends_with(',')) text.pop_back();
  return text;
}

std::vector<std::string> closing_sentences(std::span<const Comparison> comparisons) {
  std::vector<std::string> sentences;
  const auto same_kind = [](const Comparison& a, const Comparison& b) {
    return a.type == b.type && a.op == b.op && a.root == b.root && a.bytes <= b.bytes;
  };
  for (std::size_t begin = 0, end = 0; begin < comparisons.size(); begin = end) {
    for (end = begin + 1; end < comparisons.size() && same_kind(comparisons[end - 1], comparisons[end]);) ++end;
    const Comparison& one = comparisons[begin];
    const bool only = begin == 0 && end == comparisons.size();
    sentences.push_back((only ? "" : fmt::format("{} {}: ", one.type, one.op)) +
                        closing_sentence(comparisons.subspan(begin, end - begin)));
  }
  return sentences;
}

std::string sentence_of_choice(std::span<const Comparison> comparisons) {
  std::string text;
  for (std::size_t begin = 0, end = 0; begin < comparisons.size(); begin = end) {
    const std::string& chosen = comparisons[begin].chosen;
    if (chosen.empty()) return "";
    for (end = begin + 1; end < comparisons.size() && comparisons[end].chosen == chosen;) ++end;
    const bool last = end == comparisons.size();
    if (begin == 0)
      text = "where no algorithm is named, tutti takes " + chosen;
    else
      text += fmt::format(", {}{}", last ? "above it " : "", chosen);
    if (!last) text += " up to " + readable(comparisons[end - 1].bytes);
  }
  return text;
}

std::string compare_csv_header() {
  return "size,count,type,redop,root,algorithm,iterations,p50_us,busbw_GBps,ratio,ratio_low,ratio_high,wrong\n";
}

std::string compare_csv_rows(const Comparison& comparison) {
  std::string text;
  for (const Contender& one : comparison.contenders)
    text += fmt::format("{},{},{},{},{},{},{},{:.3f},{:.4f},{:.4f},{:.4f},{:.4f},{}\n", comparison.bytes,
                        comparison.count, comparison.type, comparison.op, comparison.root, one.algorithm,
                        one.times.size(), one.median, one.bandwidth.bus, one.ratio.value, one.ratio.low, one.ratio.high,
                        one.wrong < 0 ? "" : std::to_string(one.wrong));
  return text;
}

}  // namespace tutti::cli::bench
