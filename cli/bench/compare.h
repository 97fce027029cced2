#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/bench/report.h"

// Algorithms side by side: measured interleaved (A B C C B A ...), so that changes of the machine affect all of them
// alike, and compared by the ratio of their medians with a bootstrap interval.

namespace tutti::cli::bench {

/// A number with its 95 % confidence interval.
struct Ratio {
  double value = 1;
  double low = 1;
  double high = 1;
  bool shows_difference() const { return low > 1 || high < 1; }
};

/// Median of `times` divided by that of `base`; the interval by resampling both, with a fixed seed.
Ratio ratio_of_medians(const std::vector<double>& times, const std::vector<double>& base);

struct Contender {
  std::string algorithm;
  std::vector<double> times;  ///< microseconds, slowest rank of each iteration
  std::int64_t wrong = -1;
  double median = 0;
  Bandwidth bandwidth;
  Ratio ratio;  ///< to the best
};

/// One size. `best` is the index of the smallest median.
struct Comparison {
  std::size_t bytes = 0;
  std::size_t count = 0;
  std::string type;
  std::string op;
  int root = -1;
  std::vector<Contender> contenders;
  std::size_t best = 0;
  std::string chosen = {};  ///< the library's choice for this size; empty: unknown

  /// Sets medians, bandwidths, best and ratios from the times.
  void settle(MeasuredCall what, int ranks);
  /// The best one, and those that show no difference from it.
  std::vector<std::size_t> winners() const;
};

std::string compare_header(const std::vector<std::string>& algorithms);
std::string compare_row(const Comparison& comparison);
/// A summary of the rows: "up to 32 KiB tree is fastest on this machine, above it ring".
std::string closing_sentence(std::span<const Comparison> comparisons);
/// One such sentence for each type, op and root among the rows.
std::vector<std::string> closing_sentences(std::span<const Comparison> comparisons);
/// The algorithms that the library chooses for these sizes: "where no algorithm is named, tutti takes direct up to 64
/// KiB, above it ring". Empty if that is unknown.
std::string sentence_of_choice(std::span<const Comparison> comparisons);
std::string compare_csv_header();
std::string compare_csv_rows(const Comparison& comparison);

}  // namespace tutti::cli::bench
