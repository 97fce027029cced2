#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cli/bench/cases.h"
#include "cli/bench/control.h"
#include "cli/bench/numbers.h"
#include "cli/bench/options.h"

// How times are measured.
//
// The loop, as in nccl-tests: all iterations back to back between two readings of the clock, divided by their number,
// then one number from all ranks (-a). It fills the time column, except with --format short, which shows the median of
// the series.
//
// The series: before each iteration all ranks meet (--sync), each rank times its call, and the slowest rank counts.
// Minimum and percentiles come from it. Both use the same buffers each time, so that they are as warm in the caches as
// possible.

namespace tutti::cli::bench {

/// Times of single iterations, microseconds. Filled on rank 0.
struct Series {
  std::vector<double> slowest;               ///< per iteration, maximum over the ranks
  std::vector<std::vector<double>> by_rank;  ///< [rank][iteration]
  int late = 0;                              ///< iterations that a rank began after the window had opened
  double seconds = 0;                        ///< that all of them took, with the meetings before; on every rank its own
};

/// The slowest rank's times, without the first ones that -K leaves out.
inline std::vector<double> counted(const Series& series, const Options& options) {
  const auto skip = std::min(series.slowest.size(), static_cast<std::size_t>(options.skip));
  return {series.slowest.begin() + static_cast<std::ptrdiff_t>(skip), series.slowest.end()};
}

/// One placement of one row. Meaningful on rank 0.
struct Timing {
  double microseconds = 0;
  Bandwidth bandwidth;
  std::int64_t wrong = -1;  ///< elements over all ranks; -1: not checked
  int iterations = 0;
  Series series;
};

/// Warms up, times and checks one placement. Collective; throws Error.
Timing measure(Case& work, Placement placement, const Options& options, Control& control);

/// Appends at most `iterations` single calls of the case to `series` on rank 0.
void extend_series(Case& work, Placement placement, int iterations, const Options& options, Control& control,
                   Series& series);

/// One repetition that is verified: returns the wrong elements over all ranks, on rank 0.
std::int64_t verify(Case& work, Placement placement, int repetition, Control& control);

/// Makes as many calls as -w says, or the usual number, and returns the seconds per call of the last ones on rank 0 (on
/// all ranks).
double warm_up(Case& work, Placement placement, const Options& options, Control& control);

}  // namespace tutti::cli::bench
