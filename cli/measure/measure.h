#pragma once

#include <functional>

#include "cli/measure/rank_sync.h"

// How the comparison with other libraries measures time: the same code around every library's call.
//
// Single calls: before each call all ranks are aligned (rank_sync.h), with a core each to a common time. Each reads the
// clock, calls, and reads it again. The slowest rank counts, and the figure is the median. It contains no wake-up by
// the sync.
//
// Back to back: many calls without anything between them, the slowest rank's time divided by their number; the median
// of three such loops. The buffers are the same each time, so that they are as warm as possible.
//
// With computing: every rank first keeps a core busy for a given time, which the figures contain.

namespace tutti::cli::measure {

struct Budget {
  double milliseconds = 50;  ///< for the single calls of one point, and about as much for the loops
  double most = 400;         ///< even slow calls end after that, once two are measured
  int least_iterations = 5;
  double computing = 0;  ///< microseconds of a core before each call
};

/// Microseconds.
struct Times {
  double single = 0;  ///< median of single calls
  double least = 0;
  double p95 = 0;
  double loop = 0;  ///< back to back
  double skew = 0;  ///< median of the span over which the ranks entered a single call
  int iterations = 0;
  double computing = 0;  ///< as in the budget
};

/// All ranks call it together and get the same result.
Times measure(RankSync& sync, const Budget& budget, const std::function<void()>& call);

}  // namespace tutti::cli::measure
