#pragma once

#include <string>

#include "cli/bench/compare.h"
#include "cli/bench/report.h"

// --format short is for people at a terminal of 80 columns: a line about the measurement, then times with units; for
// comparisons, a bar per algorithm.

namespace tutti::cli::bench {

/// "all_reduce of float, sum: 8 ranks over tcp; 2 cores here". A line.
std::string short_heading(const Options& options, const Machine& machine);
/// Size, time and bus bandwidth of the out-of-place form. A line.
std::string short_row(const RowResult& row);
/// The size, and a line per algorithm.
std::string short_comparison(const Comparison& comparison);
/// The result of comparisons, one of closing_sentences(). A line or two.
std::string short_sentence(std::string sentence);
/// Whether all results were right.
std::string short_footer(const Outcome& outcome, const Options& options);

}  // namespace tutti::cli::bench
