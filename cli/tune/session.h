#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/tune/options.h"
#include "cli/tune/tournament.h"
#include "cli/tune/workers.h"

namespace tutti::cli::tune {

/// One point that was measured.
struct Point {
  measure::MeasuredCall call{};
  std::string transport;
  int ranks = 2;
  bool oversubscribed = false;
  std::size_t bytes = 0;
  std::string chosen;       ///< by the table that the ranks have
  std::vector<Race> races;  ///< one for each start of the ranks; candidates that were close ran in all
};

/// Measures all points that the options select, by transport and number of ranks. Then it measures once more with new
/// processes, since the placement of their memory changes times, too. It takes about the options' time, and points for
/// which there was no time are missing. The timed call is a single one that all ranks begin together. If ranks
/// outnumber cores and messages have up to 1 KiB, it is one of many in a row, since the first rank of a single call
/// would wait for its core and not for messages. `progress`, if not empty, is called with a line for each point. Throws
/// Error.
std::vector<Point> measure_all(const Options& options, const std::function<void(const std::string&)>& progress);

}  // namespace tutti::cli::tune
